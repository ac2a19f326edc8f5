import { sweepServicePolicy } from './apt-install.mjs';
import { abandonedFolders, removeFolder } from './private-folder.mjs';

/**
 * Ends the servers and deletes the folders of launchers that died without cleaning up. Returns how many folders.
 * A folder that cannot be deleted is told to `log` and left for the next sweep: it must not stop a start.
 */
export function sweep(log) {
  sweepServicePolicy();
  let swept = 0;
  for (const folder of abandonedFolders()) {
    try {
      removeFolder(folder);
      swept += 1;
    } catch (error) {
      log(`servers: could not sweep ${folder}: ${error.message}`);
    }
  }
  return swept;
}
