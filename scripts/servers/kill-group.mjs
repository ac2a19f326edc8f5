/** Sends SIGKILL to every process of the group that `pid` leads. Does nothing when the group is gone. */
export function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
