import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

/** The worker as plain JavaScript. */
export interface CompiledWorker {
  readonly script: string;
  remove(): void;
}

/**
 * Compiles the worker and the library for a plain Node.js process, which doesn't read TypeScript.
 *
 * The output lies under node_modules, so that it finds the packages of this repository.
 */
export async function compileWorker(): Promise<CompiledWorker> {
  const root = process.cwd();
  const cache = join(root, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'load-worker-'));
  const compiler = resolve(root, 'node_modules/typescript/bin/tsc');
  const project = resolve(root, 'test/load/tsconfig.json');
  const command = [compiler, '-p', project, '--outDir', folder];
  await promisify(execFile)(process.execPath, command).catch(
    (error: Error & { stdout?: string }) => {
      rmSync(folder, { recursive: true });
      throw new Error(`The worker doesn't compile:\n${error.stdout || error.message}`, {
        cause: error,
      });
    },
  );
  return {
    script: join(folder, 'test', 'load', 'worker.js'),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
