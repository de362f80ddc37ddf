import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { PrismaPg } from '@prisma/adapter-pg';
import { loadPackage } from './fenced-client.ts';

// The commands of Prisma that change a schema run an engine that they download. It is on npm, too, compiled to WebAssembly.

const ACCOUNT = `
datasource db {
  provider = "postgresql"
}
model Account {
  resource String @id
  text     String
  @@map("account")
}
`;

/** `"char"` of PostgreSQL, which catalogs use and the driver adapter doesn't know; its empty value is a byte 0. */
const CHAR = 18;
const CHARACTER = 6;
const TEXT = 25;

/** What Prisma's commands do with a database that has a fence. */
export interface PrismaSchemaEngine {
  /** The SQL of `prisma migrate diff`. */
  diff(): Promise<string>;
  /** `prisma db push`; what it warns about. */
  push(): Promise<readonly string[]>;
  /** The SQL of `prisma migrate dev` after the migrations. */
  migrate(...migrations: readonly string[]): Promise<string>;
  close(): Promise<void>;
}

/**
 * @param models beside `Account`
 * @param externalTables `tables.external` of prisma.config.ts
 */
export async function prismaSchemaEngine(
  url: string,
  models: string,
  externalTables: readonly string[],
): Promise<PrismaSchemaEngine> {
  const module = await (loading ??= loadEngine());
  const content = `${ACCOUNT}${models}`;
  const endings: (() => Promise<unknown>)[] = [];
  const { bindMigrationAwareSqlAdapterFactory } = loadPackage('@prisma/driver-adapter-utils');
  const adapter = bindMigrationAwareSqlAdapterFactory(readingCatalogs(url, endings));
  const datamodels = [['schema.prisma', content]];
  const engine = await module.SchemaEngine.new({ datamodels }, () => undefined, adapter);
  const schema = { files: [{ path: 'schema.prisma', content }] };
  const filters = { externalTables, externalEnums: [] };
  const to = { tag: 'schemaDatamodel', ...schema };
  const diffFrom = async (from: object): Promise<string> =>
    (await engine.diff({ from, to, script: true, exitCode: null, filters })).stdout;
  return {
    diff: () => diffFrom({ tag: 'schemaDatasource', ...schema, configDir: '.' }),
    push: async () => (await engine.schemaPush({ force: false, schema, filters })).warnings,
    migrate: (...migrations) =>
      diffFrom({
        tag: 'migrations',
        baseDir: '/',
        lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"' },
        shadowDbInitScript: '',
        migrationDirectories: migrations.map((sql, index) => ({
          path: `${index}_migration`,
          migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: sql } },
        })),
      }),
    close: async () => {
      for (const end of endings.toReversed()) await end();
    },
  };
}

let loading: Promise<any> | undefined;

async function loadEngine(): Promise<any> {
  const path = loadPackage.resolve('@prisma/schema-engine-wasm/schema_engine_bg');
  const module = await import(path);
  Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: { set_message: console.error } });
  const wasm = await readFile(path.replace(/\.js$/, '.wasm'));
  const { instance } = await (globalThis as any).WebAssembly.instantiate(wasm, {
    './schema_engine_bg.js': module,
  });
  module.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start();
  return module;
}

/** The driver adapter, whose connections and shadow databases end when `endings` run in reverse order. */
function readingCatalogs(url: string, endings: (() => Promise<unknown>)[]): PrismaPg {
  const factory = new PrismaPg({ connectionString: url });
  const connect = async (to: string): Promise<any> => {
    const adapter: any = await new PrismaPg({ connectionString: to }).connect();
    endings.push(adapter.dispose.bind(adapter));
    adapter.queryRaw = queryRaw.bind(undefined, adapter, adapter.queryRaw);
    return Object.assign(adapter, { dispose: async () => undefined });
  };
  const connectToShadowDb = async (): Promise<any> => {
    const owner = await connect(url);
    const name = `shadow_${randomUUID()}`;
    await owner.executeScript(`CREATE DATABASE "${name}"`);
    endings.push(() => owner.executeScript(`DROP DATABASE "${name}"`));
    const shadow = new URL(url);
    shadow.pathname = name;
    return connect(shadow.href);
  };
  return Object.assign(factory, { connect: () => connect(url), connectToShadowDb });
}

async function queryRaw(adapter: any, query: (sql: unknown) => any, sql: unknown): Promise<any> {
  let isChar: readonly boolean[] = [];
  const performIO = async (sent: unknown): Promise<any> => {
    const answer = await adapter.performIO(sent);
    isChar = answer.fields.map((field: any) => field.dataTypeID === CHAR);
    const fields = answer.fields.map(({ name, dataTypeID }: any) => ({
      name,
      dataTypeID: dataTypeID === CHAR ? TEXT : dataTypeID,
    }));
    return { ...answer, fields };
  };
  const result = await query.call(Object.create(adapter, { performIO: { value: performIO } }), sql);
  return {
    ...result,
    columnTypes: result.columnTypes.map((type: number, i: number) =>
      isChar[i] ? CHARACTER : type,
    ),
    rows: result.rows.map((row: unknown[]) =>
      row.map((value, i) => (isChar[i] && value === '' ? '\0' : value)),
    ),
  };
}
