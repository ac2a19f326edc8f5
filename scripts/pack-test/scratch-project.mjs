import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { checkout } from '../setup.mjs';

/**
 * A project outside the checkout that has the packed package installed. Its dependencies and peers are links to those of
 * the checkout, so nothing is downloaded. `close()` deletes it, as does the end of this process.
 */
export class ScratchProject {
  // The real path, as TypeScript names the files in it: macOS has a link in the path of its temporary files.
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'nestjs-mailroom-pack-')));
  /** Paths in the tarball, relative to the package. */
  files;
  /** The package.json in the tarball. */
  manifest;
  installed = join(this.folder, 'node_modules', 'nestjs-mailroom');

  constructor() {
    process.on('exit', () => this.close());
    const packed = this.#run(
      'npm',
      ['pack', '--ignore-scripts', '--json', '--pack-destination', this.folder],
      checkout,
    );
    const [{ filename, files }] = JSON.parse(packed.stdout);
    this.files = files.map(({ path }) => path);
    mkdirSync(this.installed, { recursive: true });
    this.#run('tar', ['-xzf', join(this.folder, filename), '-C', this.installed, '--strip-components=1'], this.folder);
    this.manifest = JSON.parse(readFileSync(join(this.installed, 'package.json'), 'utf8'));
    writeFileSync(join(this.folder, 'package.json'), '{ "type": "module" }');
    for (const name of [...this.#dependencies(), '@types/node']) this.link(name);
  }

  /** Links a package of the checkout into the project. */
  link(name) {
    const link = join(this.folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(checkout, 'node_modules', name), link);
  }

  /** Takes a linked package away again. */
  unlink(name) {
    rmSync(join(this.folder, 'node_modules', name), { force: true });
  }

  /** Copies a file of this script's folder into the project and returns where it is. */
  add(name) {
    const path = join(this.folder, name);
    copyFileSync(new URL(name, import.meta.url), path);
    return path;
  }

  /** Runs code with `node --input-type <type>` in the project. Throws with its output when it fails. */
  evaluate(type, code) {
    return this.#run(process.execPath, ['--no-warnings', `--input-type=${type}`, '-e', code], this.folder).stdout;
  }

  close() {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #dependencies() {
    return Object.keys({ ...this.manifest.dependencies, ...this.manifest.peerDependencies });
  }

  #run(program, args, cwd) {
    const result = spawnSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    if (result.status === 0) return result;
    throw new Error(
      `${program} ended with ${result.status ?? result.error?.message}\n${result.stdout}${result.stderr}`,
    );
  }
}
