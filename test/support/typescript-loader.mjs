// node --import ./test/support/typescript-loader.mjs file.ts: runs our TypeScript in child processes of the tests.
import { readFileSync } from 'node:fs';
import * as modules from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { transformSync } from '@swc/core';

useHook(import.meta.url, load);

/** Has node call a module hook: in this thread, or on a loader thread, which Node.js 20 has and Node.js 26 warns of. */
export function useHook(url, hook) {
  if (!isMainThread) return;
  if (modules.registerHooks) modules.registerHooks({ load: hook });
  else modules.register(url);
}

/** Module hook for our TypeScript. */
export function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
  return compile(readFileSync(fileURLToPath(url), 'utf8'), fileURLToPath(url));
}

/** Answer of a hook for one TypeScript module. */
export function compile(text, filename) {
  const { code } = transformSync(text, {
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
