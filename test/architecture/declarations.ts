import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseSource, resolveRelative, type SourceFile } from './source-file.ts';

const ENTRIES = [
  '',
  'fencing/',
  'jobs/',
  'locks/',
  'leader/',
  'once/',
  'postgres/',
  'postgres/',
  'schedule/',
  'telemetry/',
  'terminus/',
  'testing/',
].map((folder) => `${folder}index.d.ts`);

/** The emitted declarations that a user's compiler reads for the entry points, from them through all relative imports. */
export async function emitDeclarations(): Promise<SourceFile[]> {
  const folder = mkdtempSync(join(tmpdir(), 'declarations-'));
  try {
    const compiler = join(process.cwd(), 'node_modules/typescript/bin/tsc');
    const options = ['-p', 'tsconfig.build.json', '--emitDeclarationOnly', '--outDir', folder];
    await promisify(execFile)(process.execPath, [compiler, ...options]).catch(
      (error: Error & { stdout?: string }) => {
        throw new Error(`The library doesn't compile:\n${error.stdout || error.message}`, {
          cause: error,
        });
      },
    );
    return [...reachable(folder, ENTRIES)];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function* reachable(folder: string, entries: readonly string[]): Generator<SourceFile> {
  const seen = new Set(entries);
  for (const path of seen) {
    const file = parseSource(path, readFileSync(join(folder, path), 'utf8'));
    yield file;
    for (const { specifier } of file.imports) {
      if (!specifier.startsWith('.')) continue;
      const target = resolveRelative(path, specifier).replace(/\.(ts|js)$/, '.d.ts');
      if (!existsSync(join(folder, target)))
        throw new Error(`${path} imports ${specifier}, which was not emitted`);
      seen.add(target);
    }
  }
}
