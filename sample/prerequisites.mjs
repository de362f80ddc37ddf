// Runs before anything is compiled: what is missing is said in one sentence, not by the first tool that stumbles over it.
import { existsSync } from 'node:fs';

const [major, minor] = process.versions.node.split('.').map(Number);
const isNodeRecent = (major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22;

const missing =
  (process.platform === 'win32' &&
    'The sample stops processes with SIGSTOP, which Windows lacks: run it on Linux, macOS or WSL.') ||
  (!isNodeRecent && `Node ^20.19 or >=22.12 is needed, this is ${process.version}.`) ||
  (!existsSync(new URL('../node_modules/typescript/package.json', import.meta.url)) &&
    "The packages are not installed: run 'npm ci' first.");

if (missing) {
  console.error(missing);
  process.exit(1);
}
