// What comes and goes with any work of the event loop and holds nothing that a test could forget to close.
const passing = new Set(['Immediate', 'TickObject', 'Microtask', 'FSReqCallback', 'FSReqPromise', 'CloseReq']);

/**
 * Watches the sockets, servers, child processes, pipes, threads and timers that keep this process alive.
 * `list()` names those added since this call: `1 x TCPSocketWrap`. `end()` closes them, so that the run can end.
 */
export function trackHandles() {
  // Opened lazily, and a pipe under a test runner: they must exist before the count.
  void process.stdout;
  void process.stderr;
  const countsBefore = countHandles();
  const before = new Set(process._getActiveHandles());
  return {
    list: () =>
      [...countHandles()]
        .map(([type, count]) => [type, count - (countsBefore.get(type) ?? 0)])
        .filter(([, added]) => added > 0)
        .map(([type, added]) => `${added} x ${type}`),
    end() {
      const added = process._getActiveHandles().filter((handle) => !before.has(handle));
      for (const handle of added) endHandle(handle);
    },
  };
}

function countHandles() {
  const counts = new Map();
  for (const type of process.getActiveResourcesInfo()) {
    if (!passing.has(type)) counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/** A socket or stream, a child process, a server or a thread: each kind has one of these. */
function endHandle(handle) {
  if (typeof handle.destroy === 'function') handle.destroy();
  else if (typeof handle.kill === 'function') handle.kill('SIGKILL');
  else if (typeof handle.close === 'function') handle.close();
  else handle.terminate?.();
}
