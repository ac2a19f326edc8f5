/** Writes a line to standard error: standard output belongs to the command that the servers are for. */
export function toStandardError(line) {
  process.stderr.write(`${line}\n`);
}
