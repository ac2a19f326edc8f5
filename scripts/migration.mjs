// `npm run migration -- run|revert|show`: the TypeORM CLI on the built migrations, on the database of DATABASE_URL.
// Further arguments go to the CLI as they are.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const commands = ['run', 'revert', 'show'];
const [command, ...rest] = process.argv.slice(2);
const dataSource = fileURLToPath(new URL('../dist/migrations/data-source.js', import.meta.url));

if (command === undefined || !commands.includes(command)) {
  stop(
    `say what to do: npm run migration -- ${commands.join('|')}${command === undefined ? '' : ` (not "${command}")`}`,
  );
} else if (!process.env.DATABASE_URL) {
  stop('DATABASE_URL is not set. Example: DATABASE_URL=mysql://root@127.0.0.1:3306/app npm run migration -- run');
} else if (!existsSync(dataSource)) {
  stop('nothing is built yet. Run: npm run build');
} else {
  const cli = createRequire(import.meta.url).resolve('typeorm/cli.js');
  const child = spawn(process.execPath, [cli, `migration:${command}`, '-d', dataSource, ...rest], { stdio: 'inherit' });
  child.on('exit', (code, signal) => {
    process.exitCode = signal === null ? (code ?? 1) : 1;
  });
}

function stop(message) {
  console.error(`migration: ${message}`);
  process.exitCode = 2;
}
