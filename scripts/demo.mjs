#!/usr/bin/env node
// `npm run demo`: everything from a fresh clone to the demo's table, without another step. What the demo does is in
// src/reference-app/demo; this is only what has to be there before it can run.
import { join } from 'node:path';
import { runWithServers } from './run-with-servers.mjs';
import { checkout } from './setup.mjs';

const help = `Usage: npm run demo [-- [--json] [further arguments of the demo]]

Installs the dependencies and builds when that is needed, finds or starts MariaDB or MySQL and Redis, runs the demo, and
takes away what it started. The exit code is 0 only if nothing was lost and nothing was applied twice; after Ctrl-C it is
130. Set DATABASE_URL and REDIS_URL to use servers of your own: the demo makes a database of its own there and drops it.
`;

const args = process.argv.slice(2);
if (args.includes('--help') || args.includes('-h')) {
  process.stdout.write(help);
} else {
  const demo = join(checkout, 'dist/src/reference-app/demo/main.js');
  process.exitCode = await runWithServers('demo', {}, process.execPath, [demo, ...args]);
}
