import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import Libsql from 'libsql';
import type { SqliteDriver } from './sqlite-drivers.ts';

const MODULES = resolve('node_modules');

/**
 * A second driver that needs no compiler and no newer Node.js: a copy of libsql that says it is another build of SQLite. The system
 * loads the copied library beside the first one, so it is a second SQLite in this process, as that of another driver would be.
 *
 * @param folder for the copy
 */
export function secondDriver(folder: string): SqliteDriver {
  const [row] = new Libsql(':memory:').prepare('SELECT sqlite_source_id() AS id').all() as any[];
  const source = String(row.id);
  const modules = join(folder, 'node_modules');
  cpSync(join(MODULES, 'libsql'), join(modules, 'libsql'), { recursive: true });
  cpSync(join(MODULES, '@libsql'), join(modules, '@libsql'), { recursive: true });
  symlinkSync(join(MODULES, '@neon-rs'), join(modules, '@neon-rs'));
  for (const name of readdirSync(join(modules, '@libsql'))) {
    const library = join(modules, '@libsql', name, 'index.node');
    const text = readFileSync(library, 'latin1').replaceAll(
      source,
      source.replace(/^..../, '1999'),
    );
    writeFileSync(library, text, 'latin1');
  }
  return createRequire(join(folder, 'package.json'))('libsql') as SqliteDriver;
}
