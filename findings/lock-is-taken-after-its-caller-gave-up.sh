#!/usr/bin/env bash
# ioredis 6.0.0, node-redis 6.3.1 and Valkey GLIDE 2.5.2 on Redis 7.0.15: a lock is taken for a caller that gave up long ago, and nobody
# holds it.
#
# Each client keeps commands while the server is away, and sends them when it is back. The caller has its own limit: after 300 ms it
# answers "busy" and goes on. A second later its SET NX PX is executed. The lock belongs to nobody, since the one whose token it has will
# neither use nor release it, and everybody waits for the ttl: one outage of a second is one of a whole ttl. Nothing in the answers shows
# it; the promise that would say so has no listener by then. The options that end it are not the defaults: disableOfflineQueue in
# node-redis, enableOfflineQueue: false in ioredis; GLIDE has none, but its requestTimeout (250 ms unless it is set) bounds it.
#
# Seen: ioredis, node-redis, GLIDE with requestTimeout 5000: the lock is held by the one that gave up; node-redis with
#       disableOfflineQueue, ioredis with enableOfflineQueue: false, GLIDE with 200 ms: the lock is free
set -euo pipefail
folder=$(mktemp -d)
finish() {
  if [ -e "$folder/pid" ]; then kill -9 "$(cat "$folder/pid")" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund ioredis@6.0.0 redis@6.3.1 @valkey/valkey-glide@2.5.2
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

cat >play.cjs <<'JS'
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { connect } = require('node:net');
const { writeFileSync } = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { Redis } = require('ioredis');
const { createClient } = require('redis');
const { GlideClient, Logger } = require('@valkey/valkey-glide');

const host = '127.0.0.1';
const port = Number(process.env.REDIS_PORT);
Logger.setLoggerConfig('off');
let server;

const accepts = () =>
  new Promise((resolve) => {
    const socket = connect(port, host, () => resolve(true));
    socket.on('error', () => resolve(false)).on('connect', () => socket.end());
  });

async function start() {
  server = spawn('usr/bin/redis-server', ['--bind', host, '--port', port, '--save', ''], { stdio: 'ignore' });
  writeFileSync('pid', String(server.pid));
  while (!(await accepts())) await sleep(20);
}

async function stop() {
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGKILL');
  await ended;
}

const SET = ['SET', 'lock', 'of-the-caller', 'NX', 'PX', '60000'];

const ofIoredis = (options) => async () => {
  const client = new Redis({ host, port, ...options }).on('error', () => {});
  await once(client, 'ready');
  return { take: () => client.call(...SET), close: () => client.disconnect() };
};
const ofNodeRedis = (options) => async () => {
  const client = await createClient({ socket: { host, port }, ...options }).on('error', () => {}).connect();
  return { take: () => client.sendCommand(SET), close: () => client.destroy() };
};
const ofGlide = (requestTimeout) => async () => {
  const client = await GlideClient.createClient({ addresses: [{ host, port }], requestTimeout });
  return { take: () => client.customCommand(SET), close: () => client.close() };
};

const clients = {
  ioredis: ofIoredis({}),
  'ioredis, enableOfflineQueue: false': ofIoredis({ enableOfflineQueue: false }),
  'node-redis': ofNodeRedis({}),
  'node-redis, disableOfflineQueue': ofNodeRedis({ disableOfflineQueue: true }),
  'GLIDE, 5 s': ofGlide(5_000),
  'GLIDE, 200 ms': ofGlide(200),
};

async function main() {
  for (const [name, open] of Object.entries(clients)) {
    await start();
    const { take, close } = await open();
    await stop();
    await sleep(100);
    const taken = Promise.resolve().then(take).catch(() => 'rejected');
    const said = await Promise.race([taken, sleep(300, 'gave up')]);
    await sleep(700);
    await start();
    const looks = new Redis({ host, port });
    let holder = null;
    for (let tries = 0; holder === null && tries < 60; tries += 1) {
      await sleep(100);
      holder = await looks.get('lock');
    }
    console.log(`${name}: the caller ${said === 'OK' ? 'has it' : 'gave up'}, the lock is ${holder ?? 'free'}`);
    looks.disconnect();
    close();
    await stop();
  }
  process.exit();
}
main();
JS

seen=$(timeout 300 node play.cjs 2>/dev/null)
expected='ioredis: the caller gave up, the lock is of-the-caller
ioredis, enableOfflineQueue: false: the caller gave up, the lock is free
node-redis: the caller gave up, the lock is of-the-caller
node-redis, disableOfflineQueue: the caller gave up, the lock is free
GLIDE, 5 s: the caller gave up, the lock is of-the-caller
GLIDE, 200 ms: the caller gave up, the lock is free'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
