#!/usr/bin/env bash
# TypeORM 1.1.1 and Knex 3.3.0 on MariaDB 10.11.19: an upsert that names its conflict target changes the row of somebody else.
#
# `upsert(ben, ['email'])` and `onConflict('email').merge()` say which key decides whether there is such a row. MariaDB (and
# MySQL) has no place for it: ON DUPLICATE KEY UPDATE takes a conflict with any unique key, and the libraries drop the column
# without a word. Ann has badge A1. An import brings Ben, with a new address and, by mistake, badge A1: SQLite refuses it,
# since the address is new and the badge is taken. On MariaDB there is no Ben, and Ann's row has Ben's address. The answer is
# that of an update that went well. Knex does refuse `merge().where()` there, and so the silence is no rule.
#
# Seen: MariaDB: typeorm and knex: fulfilled, rows 1 ben A1; SQLite: typeorm: rejected, rows 1 ann A1
set -euo pipefail
folder=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill -9 "$server" || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund typeorm@1.1.1 reflect-metadata@0.2.2 knex@3.3.0 mysql2@3.24.6 sql.js@1.17.0
apt-get download -qq mariadb-server-core=1:10.11.19-0+deb12u1 liburing2 libaio1 libnuma1 2>/dev/null ||
  { echo "apt-get download of mariadb-server-core 1:10.11.19-0+deb12u1 (Debian 12) failed" >&2; exit 1; }
for package in ./*.deb; do dpkg -x "$package" .; done
LD_LIBRARY_PATH=$(echo "$PWD"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
mkdir data
mariadbd=(usr/sbin/mariadbd --no-defaults --user="$(id -un)" --datadir="$PWD/data" --lc-messages-dir="$PWD/usr/share/mysql")
printf 'CREATE DATABASE mysql;\nCREATE DATABASE app;\n' | "${mariadbd[@]}" --bootstrap 2>log
export MARIADB_SOCKET=$PWD/mariadb.sock
# A throw-away server without a port: no accounts, so no tables for them.
"${mariadbd[@]}" --skip-grant-tables --skip-networking --socket="$MARIADB_SOCKET" 2>>log &
server=$!
until grep -q 'ready for connections' log; do
  kill -0 "$server"
  sleep 0.1
done

cat >play.cjs <<'JS'
require('reflect-metadata');
const { DataSource, EntitySchema } = require('typeorm');
const socket = process.env.MARIADB_SOCKET;
const person = new EntitySchema({
  name: 'Person',
  tableName: 'person',
  columns: {
    id: { type: Number, primary: true, generated: true },
    email: { type: String, unique: true },
    badge: { type: String, unique: true },
  },
});
const ben = { email: 'ben@example.com', badge: 'A1' };
const sources = {
  MariaDB: { type: 'mariadb', socketPath: socket, username: 'root', database: 'app' },
  SQLite: { type: 'sqljs' },
};

async function play(name, people, upsert) {
  await people.clear();
  await people.insert({ id: 1, email: 'ann@example.com', badge: 'A1' });
  const answer = await upsert().then(
    () => 'fulfilled',
    (error) => error.message,
  );
  const rows = (await people.find()).map(({ id, email, badge }) => `${id} ${email} ${badge}`);
  console.log(`${name}: ${answer}, rows ${rows.join('; ')}`);
}

async function main() {
  for (const [database, settings] of Object.entries(sources)) {
    const source = await new DataSource({ ...settings, entities: [person], synchronize: true }).initialize();
    const people = source.getRepository('Person');
    await play(`${database}, typeorm`, people, () => people.upsert({ ...ben }, ['email']));
    if (database === 'MariaDB') {
      const connection = { socketPath: socket, user: 'root', database: 'app' };
      const knex = require('knex')({ client: 'mysql2', connection });
      await play(`${database}, knex`, people, () => knex('person').insert(ben).onConflict('email').merge());
      await knex.destroy();
    }
    await source.destroy();
  }
}
main();
JS

seen=$(node play.cjs)
expected='MariaDB, typeorm: fulfilled, rows 1 ben@example.com A1
MariaDB, knex: fulfilled, rows 1 ben@example.com A1
SQLite, typeorm: UNIQUE constraint failed: person.badge, rows 1 ann@example.com A1'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
