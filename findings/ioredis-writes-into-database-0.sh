#!/usr/bin/env bash
# ioredis 5.11.1 and 6.0.0, iovalkey 0.4.0 and node-redis 6.3.1 on Redis 7.0.15: a user who may not
# SELECT asks for database 3, and ioredis writes into database 0.
#
# A database number in the options is one command more, which the client sends after it has connected. ioredis reports the refusal
# as an error event and goes on: the client becomes ready, and each later command is answered without an error, in database 0, where
# another application may have the same keys. Whoever takes an error event for a connection that is tried again loses data of somebody
# else. Users without SELECT are usual: ACL rules of least privilege, and servers that are rented out with one database. node-redis
# rejects, and writes nothing.
#
# Seen: ioredis 5, ioredis 6, iovalkey: said NOPERM, and the key in database 0 is overwritten; node-redis: rejected, untouched
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
npm install --silent --no-audit --no-fund ioredis-5@npm:ioredis@5.11.1 ioredis-6@npm:ioredis@6.0.0 iovalkey@0.4.0 redis@6.3.1
# The check tool of redis-tools is the server, which decides by its name what to be.
apt-get download -qq redis-tools=5:7.0.15-1~deb12u10 liblzf1 libjemalloc2 2>/dev/null ||
  { echo "apt-get download of redis-tools 5:7.0.15-1~deb12u10 (Debian 12) failed" >&2; exit 1; }
for package in ./*.deb; do dpkg -x "$package" .; done
ln -s redis-check-rdb usr/bin/redis-server
LD_LIBRARY_PATH=$(echo "$PWD"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
# A port of the loopback that was free a moment ago.
REDIS_PORT=$(node -e "const server = net.createServer().listen(0, '127.0.0.1', () => server.close(console.log(server.address().port)))")
export REDIS_PORT
usr/bin/redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --save '' >log &
server=$!
until [ "$(usr/bin/redis-cli -p "$REDIS_PORT" PING 2>/dev/null)" = PONG ]; do sleep 0.1; done

cat >play.cjs <<'JS'
const host = '127.0.0.1';
const port = Number(process.env.REDIS_PORT);
const { createClient } = require('redis');
const user = { username: 'app', password: 'app' };

const likeIoredis = (name) => async () => {
  const client = new (require(name))({ host, port, db: 3, ...user });
  let said = 'nothing';
  client.on('error', (error) => (said = error.message.split(' ')[0]));
  await client.set('seats', 'of app');
  client.disconnect();
  return `said ${said}`;
};

const clients = {
  'ioredis 5': likeIoredis('ioredis-5'),
  'ioredis 6': likeIoredis('ioredis-6'),
  iovalkey: likeIoredis('iovalkey'),
  async 'node-redis'() {
    const socket = { host, port, reconnectStrategy: false };
    const client = createClient({ socket, database: 3, ...user });
    client.on('error', () => {});
    await client.connect();
    await client.set('seats', 'of app');
    client.destroy();
    return 'said nothing';
  },
};

async function main() {
  const admin = await createClient({ url: `redis://${host}:${port}` }).on('error', () => {}).connect();
  await admin.sendCommand(['ACL', 'SETUSER', 'app', 'on', '>app', '~*', '&*', '+@all', '-select']);
  for (const [name, play] of Object.entries(clients)) {
    await admin.set('seats', 'of another application');
    const said = await play().catch(() => 'rejected');
    console.log(`${name}: ${said}; database 0 has the seats ${await admin.get('seats')}`);
  }
  admin.destroy();
}
main();
JS

seen=$(node play.cjs 2>/dev/null)
expected='ioredis 5: said NOPERM; database 0 has the seats of app
ioredis 6: said NOPERM; database 0 has the seats of app
iovalkey: said NOPERM; database 0 has the seats of app
node-redis: rejected; database 0 has the seats of another application'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
