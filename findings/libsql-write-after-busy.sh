#!/usr/bin/env bash
# libsql 0.5.29, which has the interface of better-sqlite3: a write that reports success is lost, because another statement met
# SQLITE_BUSY before it on the same connection.
#
# A prepared statement that fails with SQLITE_BUSY is not reset. It stays open until the garbage collector takes it, and with it
# the transaction of its connection. The next single statement on that connection, outside of BEGIN, joins it: `run` returns
# changes 1, `inTransaction` says false, the connection itself reads the row, and nobody else ever does. When the process ends,
# the row is gone. Running the first statement again, or a transaction of BEGIN and COMMIT, ends this state.
#
# Seen: busy SQLITE_BUSY, changes 1, in transaction false, seen by the writer 1, by others 0, after the process ended 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund libsql@0.5.29

cat >write.cjs <<'JS'
const Database = require('libsql');
const [holder, writer, other] = [1, 2, 3].map(() => new Database('test.db', { timeout: 0 }));
const count = (database) => database.prepare('SELECT count(*) AS n FROM booking').get().n;
holder.exec('CREATE TABLE booking (seat TEXT)');
holder.exec('BEGIN IMMEDIATE');
const first = writer.prepare('INSERT INTO booking VALUES (?)');
let code;
try {
  first.run('1A');
} catch (error) {
  ({ code } = error);
}
holder.exec('COMMIT');
const { changes } = writer.prepare('INSERT INTO booking VALUES (?)').run('2B');
console.log(
  `busy ${code}, changes ${changes}, in transaction ${writer.inTransaction}, ` +
    `seen by the writer ${count(writer)}, by others ${count(other)}`,
);
JS
cat >read.cjs <<'JS'
const Database = require('libsql');
console.log(new Database('test.db').prepare('SELECT count(*) AS n FROM booking').get().n);
JS

seen="$(node write.cjs), after the process ended $(node read.cjs)"
expected='busy SQLITE_BUSY, changes 1, in transaction false, seen by the writer 1, by others 0, after the process ended 0'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  echo "This has changed. Expected: $expected" >&2
  exit 1
fi
