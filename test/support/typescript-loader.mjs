// node --import ./test/support/typescript-loader.mjs file.ts: runs our TypeScript in child processes of the tests.
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) register(import.meta.url);

/** Module hook, which node calls on its loader thread. */
export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
  return compile(await readFile(fileURLToPath(url), 'utf8'), fileURLToPath(url));
}

/** Answer of a hook for one TypeScript module. */
export async function compile(text, filename) {
  const { transform } = await import('@swc/core');
  const { code } = await transform(text, {
    filename,
    sourceMaps: 'inline',
    swcrc: false,
    module: { type: 'es6' },
    jsc: {
      target: 'es2022',
      keepClassNames: true,
      parser: { syntax: 'typescript', decorators: true },
      transform: {
        legacyDecorator: true,
        decoratorMetadata: true,
        useDefineForClassFields: false,
      },
    },
  });
  return { format: 'module', source: code, shortCircuit: true };
}
