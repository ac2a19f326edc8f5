import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The path of promtool: the installed one, else the one of the Debian package, unpacked into a folder of the test's own
 * without being installed. Null where there is neither.
 */
export function findPromtool(): { readonly path: string; remove(): void } | null {
  if (spawnSync('promtool', ['--version']).status === 0) return { path: 'promtool', remove: () => undefined };
  const folder = mkdtempSync(join(tmpdir(), 'mailroom-promtool-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const path = unpackInto(folder);
  if (path !== null) return { path, remove };
  remove();
  return null;
}

function unpackInto(folder: string): string | null {
  const options = { cwd: folder, stdio: 'ignore', timeout: 120_000 } as const;
  try {
    // A machine that never asked for its lists of packages does so first.
    if (spawnSync('apt-get', ['download', 'prometheus'], options).status !== 0) {
      execFileSync('apt-get', ['update'], options);
      execFileSync('apt-get', ['download', 'prometheus'], options);
    }
    const [file] = readdirSync(folder).filter((name) => name.endsWith('.deb'));
    if (!file) return null;
    execFileSync('dpkg', ['-x', file, '.'], options);
  } catch {
    return null;
  }
  const path = join(folder, 'usr/bin/promtool');
  return existsSync(path) ? path : null;
}
