#!/usr/bin/env bash
# Knex 3.3.0 on SQLite: after one COMMIT that found the file busy, every later transaction is refused, and writes that resolve are
# lost when the process ends.
#
# A COMMIT waits for readers of the file, and one that gives up with SQLITE_BUSY leaves its transaction open, so that it can be tried
# again. Knex rejects the call, sends no ROLLBACK, and gives the connection back to its pool with that transaction in it. The next
# knex.transaction finds it there: "cannot start a transaction within a transaction", and so does every one after it. A statement
# alone joins it: it resolves, the application reads its row, and nobody commits it.
#
# The driver is libsql 0.5.29 under the name of better-sqlite3, whose interface it has; better-sqlite3 12.11.1 gives the same lines.
#
# Seen: first COMMIT; - database is locked, second and third BEGIN; - cannot start a transaction within a transaction,
#       alone resolved, the application reads first,alone; after the process ended 0 rows
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund knex@3.3.0 better-sqlite3@npm:libsql@0.5.29

cat >write.cjs <<'JS'
const Database = require('better-sqlite3');
const knex = require('knex')({
  client: 'better-sqlite3',
  connection: { filename: 'test.db' },
  useNullAsDefault: true,
});
const reader = new Database('test.db', { timeout: 0 });
const outcome = (promise) => promise.then(() => 'resolved', (error) => error.message);
const write = (text) => outcome(knex.transaction((trx) => trx('note').insert({ text })));

(async () => {
  reader.exec('CREATE TABLE note (text TEXT)');
  await knex.raw('PRAGMA busy_timeout = 1');
  reader.exec('BEGIN; SELECT * FROM note');
  console.log(`first ${await write('first')}`);
  reader.exec('COMMIT');
  for (const text of ['second', 'third']) console.log(`${text} ${await write(text)}`);
  console.log(`alone ${await outcome(knex('note').insert({ text: 'alone' }))}`);
  console.log(`read ${(await knex('note')).map(({ text }) => text)}`);
  process.exit();
})();
JS
seen=$(node write.cjs)
count="console.log(new (require('better-sqlite3'))('test.db').prepare('SELECT count(*) AS n FROM note').get().n)"
seen+=$'\n'"after the end $(node -e "$count")"
echo "$seen"
expected='first COMMIT; - database is locked
second BEGIN; - cannot start a transaction within a transaction
third BEGIN; - cannot start a transaction within a transaction
alone resolved
read first,alone
after the end 0'
if [ "$seen" != "$expected" ]; then
  echo "This has changed. Expected: $expected" >&2
  exit 1
fi
