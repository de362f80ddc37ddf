// node --import ./test/simulation/mutants/mutant-loader.mjs: runs our TypeScript as it is, except for the edits in SIMULATED_EDITS.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { compile, useHook } from '../../support/typescript-loader.mjs';

const edits = JSON.parse(process.env.SIMULATED_EDITS ?? '[]');

useHook(import.meta.url, load);

/** Module hook for the files that are edited. */
export function load(url, context, nextLoad) {
  const mine = edits.filter(({ file }) => url.startsWith('file:') && url.endsWith(`/${file}`));
  if (mine.length === 0) return nextLoad(url, context);
  let text = readFileSync(fileURLToPath(url), 'utf8');
  for (const { file, find, replace } of mine) {
    const parts = text.split(find);
    if (parts.length !== 2) {
      throw new Error(`${file} has ${parts.length - 1} times, not once: ${find}`);
    }
    text = parts.join(replace);
  }
  return compile(text, fileURLToPath(url));
}
