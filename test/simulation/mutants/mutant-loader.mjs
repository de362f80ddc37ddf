// node --import ./test/simulation/mutants/mutant-loader.mjs: runs our TypeScript as it is, except for the edits in SIMULATED_EDITS.
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { compile } from '../../support/typescript-loader.mjs';

if (isMainThread) register(import.meta.url);

const edits = JSON.parse(process.env.SIMULATED_EDITS ?? '[]');

/** Module hook, which node calls on its loader thread. */
export async function load(url, context, nextLoad) {
  const mine = edits.filter(({ file }) => url.startsWith('file:') && url.endsWith(`/${file}`));
  if (mine.length === 0) return nextLoad(url, context);
  let text = await readFile(fileURLToPath(url), 'utf8');
  for (const { file, find, replace } of mine) {
    const parts = text.split(find);
    if (parts.length !== 2) {
      throw new Error(`${file} has ${parts.length - 1} times, not once: ${find}`);
    }
    text = parts.join(replace);
  }
  return compile(text, fileURLToPath(url));
}
