#!/usr/bin/env node
// `npm run soak`: finds or starts the servers and lets the reference application run under traffic and faults.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runWithServers } from './run-with-servers.mjs';
import { toStandardError } from './servers/log.mjs';
import { checkout } from './setup.mjs';

const help = `Usage: npm run soak [-- --minutes 10] [--rate 50] [--database mariadb|mysql|any]

Steady pushes (--rate a second), a fifth of them repeated, some with a bad signature, while connections to the database are
killed. Every 10 s it samples resident memory, heap, handles, timers and connections, and draws them at the end. The exit
code is 1 when one of them grows after the warm-up, or when a push was lost or applied twice.
`;

const options = {
  minutes: { type: 'string', default: '10' },
  rate: { type: 'string', default: '50' },
  database: { type: 'string', default: 'any' },
  help: { type: 'boolean', short: 'h', default: false },
};

function parse(args) {
  const { values } = parseArgs({ args, options });
  for (const name of ['minutes', 'rate']) {
    if (!(Number(values[name]) > 0)) throw new Error(`--${name} ${values[name]} is no number above 0`);
  }
  if (!['mariadb', 'mysql', 'any'].includes(values.database))
    throw new Error(`--database ${values.database} is none of mariadb, mysql, any`);
  return values;
}

try {
  const { minutes, rate, database, help: asked } = parse(process.argv.slice(2));
  if (asked) process.stdout.write(help);
  else {
    const typescript = join(checkout, 'test/support/typescript/register.mjs');
    const main = join(checkout, 'test/soak/main.ts');
    const switches = ['--disable-warning=ExperimentalWarning', '--import', typescript];
    const args = [...switches, main, `--minutes=${minutes}`, `--rate=${rate}`];
    process.exitCode = await runWithServers('soak', { database }, process.execPath, args);
  }
} catch (error) {
  toStandardError(`soak: ${error.message}`);
  process.exitCode = 2;
}
