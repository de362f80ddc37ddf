import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

const { exports } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Deletes the declarations of the package to which none of its entries leads: nothing can import them. */
for (const build of ['dist/esm', 'dist/cjs']) {
  const reached = new Set();
  const reach = (path) => {
    if (reached.has(path)) return;
    reached.add(path);
    for (const [, to] of readFileSync(path, 'utf8').matchAll(/['"](\.\.?\/[^'"]+)\.[jt]s['"]/g))
      reach(join(dirname(path), `${to}.d.ts`));
  };
  for (const { require: entry } of Object.values(exports))
    if (entry) reach(join(build, entry.replace('./dist/cjs/', '').replace(/js$/, 'd.ts')));
  for (const file of readdirSync(build, { recursive: true }))
    if (file.endsWith('.d.ts') && !reached.has(join(build, file))) rmSync(join(build, file));
}
