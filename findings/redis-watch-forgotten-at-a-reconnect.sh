#!/usr/bin/env bash
# ioredis 5.11.1 and 6.0.0, iovalkey 0.4.0, Valkey GLIDE 2.5.2 and node-redis 6.3.1 on Redis 7.0.15: WATCH is forgotten when the
# connection is replaced, and EXEC then succeeds over the change that it should have refused.
#
# WATCH belongs to a connection. These clients connect again by themselves, bring back what they know of (the database, the
# subscriptions), and send the MULTI as if nothing had been watched: no error, and the answer of a transaction that passed. Any
# cut between WATCH and EXEC does it: a failover, an idle time-out of a proxy, CLIENT KILL. Ten seats are read under WATCH,
# another client takes seven, the connection is cut, and the one who read ten writes nine. node-redis 6.3.1 counts its
# connections and rejects with `WatchError`, but only when it is connected again: an EXEC that is called in between waits in its
# queue, and passes as in the others.
#
# Seen: ioredis 5, ioredis 6, iovalkey, glide: EXEC answers OK, seats 9; node-redis: connected again: EXEC answers WatchError,
#       seats 3; not yet: EXEC answers OK, seats 9; each of them without the cut: refused, seats 3
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
npm install --silent --no-audit --no-fund ioredis-5@npm:ioredis@5.11.1 ioredis-6@npm:ioredis@6.0.0 iovalkey@0.4.0 @valkey/valkey-glide@2.5.2 redis@6.3.1
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
const connect = () => createClient({ url: `redis://${host}:${port}` }).on('error', () => {}).connect();

const likeIoredis = (name) => async () => {
  const client = new (require(name))(port, host);
  return {
    watch: (key) => client.watch(key),
    get: (key) => client.get(key),
    async set(key, value) {
      const answers = await client.multi().set(key, value).exec();
      return answers && answers.map((answer) => answer[1]);
    },
    close: () => client.disconnect(),
  };
};

const openers = {
  'ioredis 5': likeIoredis('ioredis-5'),
  'ioredis 6': likeIoredis('ioredis-6'),
  iovalkey: likeIoredis('iovalkey'),
  async glide() {
    const { Batch, GlideClient } = require('@valkey/valkey-glide');
    const client = await GlideClient.createClient({ addresses: [{ host, port }] });
    return {
      watch: (key) => client.watch([key]),
      get: (key) => client.get(key),
      set: (key, value) => client.exec(new Batch(true).set(key, value), true),
      close: () => client.close(),
    };
  },
  async 'node-redis'() {
    const client = await connect();
    return {
      watch: (key) => client.watch(key),
      get: (key) => client.get(key),
      set: (key, value) => client.multi().set(key, value).exec(),
      close: () => client.destroy(),
      heard: (event) => new Promise((resolve) => client.once(event, resolve)),
    };
  },
};

const cuts = {
  'without a cut': async () => undefined,
  async 'connected again'(client, cut) {
    const ready = client.heard?.('ready');
    await cut();
    await ready;
    while (!(await client.get('seats').catch(() => undefined)));
  },
  async 'not yet'(client, cut) {
    const away = client.heard('reconnecting');
    await cut();
    await away;
  },
};

async function play(other, open, happens) {
  await other.set('seats', 10);
  const client = await open();
  await client.watch('seats');
  const seats = Number(await client.get('seats'));
  await other.decrBy('seats', 7);
  await happens(client, () => other.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes']));
  const answer = await client.set('seats', String(seats - 1)).then(
    (answers) => answers?.join() ?? 'nothing',
    (error) => error.constructor.name,
  );
  client.close();
  return `EXEC answers ${answer}, seats ${await other.get('seats')}`;
}

async function main() {
  const other = await connect();
  for (const [name, open] of Object.entries(openers)) {
    for (const [moment, happens] of Object.entries(cuts)) {
      if (moment === 'not yet' && name !== 'node-redis') continue;
      console.log(`${name}, ${moment}: ${await play(other, open, happens)}`);
    }
  }
  other.destroy();
}
main();
JS

seen=$(node play.cjs)
expected='ioredis 5, without a cut: EXEC answers nothing, seats 3
ioredis 5, connected again: EXEC answers OK, seats 9
ioredis 6, without a cut: EXEC answers nothing, seats 3
ioredis 6, connected again: EXEC answers OK, seats 9
iovalkey, without a cut: EXEC answers nothing, seats 3
iovalkey, connected again: EXEC answers OK, seats 9
glide, without a cut: EXEC answers nothing, seats 3
glide, connected again: EXEC answers OK, seats 9
node-redis, without a cut: EXEC answers WatchError, seats 3
node-redis, connected again: EXEC answers WatchError, seats 3
node-redis, not yet: EXEC answers OK, seats 9'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
