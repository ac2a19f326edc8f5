// Runs parts of the bench on the servers of DATABASE_URL and REDIS_URL. scripts/bench.mjs starts it with both, once for
// each database, and has checked the names of the parts.
import { parseArgs } from 'node:util';
import type { Part } from './harness/part.js';
import { runPart } from './harness/run-part.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean' },
    full: { type: 'boolean' },
    json: { type: 'string' },
    record: { type: 'boolean' },
  },
});

let correct = true;
for (const name of positionals) {
  const { part } = (await import(new URL(`./parts/${name}.ts`, import.meta.url).href)) as { part: Part };
  const ok = await runPart(name, part, {
    length: values.quick ? 'quick' : values.full ? 'full' : 'normal',
    redisUrl: process.env.REDIS_URL ?? '',
    json: values.json,
    page: values.record ? new URL('../../docs/benchmarks.md', import.meta.url) : undefined,
    print: (text) => process.stdout.write(`${text}\n`),
    log: (line) => process.stderr.write(`${line}\n`),
  });
  correct &&= ok;
}
process.exitCode = correct ? 0 : 1;
