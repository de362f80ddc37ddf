// npm run compile:scripts: writes the scripts, compiled, for the servers in memory.
import { writeFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
import { BATCH } from '../../lib/redis/batch.ts';
import { JOIN } from '../../lib/redis/joining.ts';
import { REVOKE } from '../../lib/redis/operating.ts';
import { ACQUIRE, EXTEND, INSPECT, RELEASE, WAIT } from '../../lib/redis/scripts.ts';
import type { LuaScript } from '../../lib/testing/memory/lua-runtime.ts';
import { compileLua } from './compile-lua.ts';

/** The scripts that servers in memory run, by the names under which they are exported. */
const SHIPPED = {
  join: JOIN,
  acquire: ACQUIRE,
  extend: EXTEND,
  release: RELEASE,
  wait: WAIT,
  inspect: INSPECT,
  revoke: REVOKE,
};

/** All scripts: only connections send several requests as one. */
export const SCRIPTS = { ...SHIPPED, batch: BATCH };

export const COMPILED = 'lib/testing/memory/compiled-scripts.ts';

/** The text of the module that is shipped. */
export function compiledModule(): string {
  const scripts = Object.entries(SHIPPED).map(
    ([name, { text }]) => `export const ${name}: LuaScript = ${compileLua(text)};\n`,
  );
  return `// Written by \`npm run compile:scripts\` from the scripts in lib/redis; not to be edited.
// @ts-nocheck
import type { LuaScript } from './lua-runtime.ts';

${scripts.join('\n')}`;
}

/** The same functions, compiled here and now. */
export function functionsOfScripts(): Record<string, LuaScript> {
  const compiled = Object.entries(SCRIPTS).map(([name, { text }]) => [
    name,
    runInThisContext(`(${compileLua(text)})`) as LuaScript,
  ]);
  return Object.fromEntries(compiled) as Record<string, LuaScript>;
}

if (import.meta.filename === process.argv[1]) writeFileSync(COMPILED, compiledModule());
