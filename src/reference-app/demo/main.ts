import { InterruptedError } from './interruptible.js';
import { isGood, table } from './report.js';
import { runDemo } from './run-demo.js';

const help = `Pushes every example webhook of GitHub, 500 order events, a fifth of them twice, 202 contract events and 200 CRM pushes
without an id at two instances of the reference application, and chats through them with three users, one of them offline. One
message ends every instance that handles it, another instance is killed while it works. Shows from the tables that each message
was handled once, and that each chat message arrived. In the end the message that ended the instances is run again, after its cause
was mended.

Usage: npm run demo [-- --json]
  --json   print the figures as JSON on stdout
  --help   print this

Exit code: 0 if nothing was lost, nothing was applied twice and only the planned failures failed; 1 otherwise; 130 after
Ctrl-C. DATABASE_URL names the server (a database of its own is created and dropped there), REDIS_URL the Redis for the
leases; without it they are kept in the database.
`;

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help);
    return 0;
  }
  const unknown = args.find((arg) => arg !== '--json');
  if (unknown !== undefined) {
    process.stderr.write(`unknown argument ${unknown}\n${help}`);
    return 2;
  }
  const { DATABASE_URL, REDIS_URL } = process.env;
  if (!DATABASE_URL) {
    process.stderr.write(
      'DATABASE_URL is not set: run the demo with `npm run demo`, which finds or starts the servers\n',
    );
    return 2;
  }
  const interrupt = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupt.abort());
  // Whoever reads the report may have seen enough.
  process.stdout.on('error', () => undefined);
  const json = args.includes('--json');
  try {
    const report = await runDemo({
      databaseUrl: DATABASE_URL,
      redisUrl: REDIS_URL || undefined,
      say: (line) => process.stderr.write(`demo: ${line}\n`),
      signal: interrupt.signal,
    });
    process.stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : `${table(report)}\n`);
    return isGood(report) ? 0 : 1;
  } catch (error) {
    if (error instanceof InterruptedError) return 130;
    process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
