#!/usr/bin/env bash
# The client-side cache of node-redis 6.3.1 on Redis 7.0.15: a key that has run out is still read, for as long as nobody else
# happens to touch it.
#
# The server sends an invalidation when it deletes a key, and not when the time of the key is over. An expired key is deleted
# when somebody asks the server for it, but with the cache nobody does; else by a job that looks at a few random keys ten times
# a second, and that rests while few of those have run out. With 400,000 other keys that have a time to live, one lock of 300 ms
# is still read two seconds later (and 20 s later, when that was tried), while a client without a cache reads nothing. `ttl: 0`,
# which is the default, leaves the end of an entry to the invalidations.
#
# Seen: 2 s after the end of its 300 ms: with the cache owner, asked past the cache nothing, with the cache then nothing
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
npm install --silent --no-audit --no-fund redis@6.3.1
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
const { createClient } = require('redis');
const url = `redis://127.0.0.1:${process.env.REDIS_PORT}`;

async function main() {
  const plain = await createClient({ url }).connect();
  const cached = await createClient({ url, RESP: 3, clientSideCache: { ttl: 0, maxEntries: 0 } }).connect();
  for (let block = 0; block < 400; block++) {
    const batch = plain.multi();
    for (let number = 0; number < 1000; number++) {
      batch.set(`session:${block}:${number}`, 'x', { expiration: { type: 'EX', value: 86_400 } });
    }
    await batch.execAsPipeline();
  }
  await plain.set('lock', 'owner', { expiration: { type: 'PX', value: 300 } });
  await cached.get('lock');
  await new Promise((resolve) => setTimeout(resolve, 2_300));
  const seen = [await cached.get('lock'), await plain.get('lock')];
  // The question of the other client has deleted the key, and the invalidation came with the answer to the next command.
  await cached.ping();
  seen.push(await cached.get('lock'));
  const [first, past, then] = seen.map((value) => value ?? 'nothing');
  console.log(
    `2 s after the end of its 300 ms: with the cache ${first}, asked past the cache ${past}, with the cache then ${then}`,
  );
  plain.destroy();
  cached.destroy();
}
main();
JS

seen=$(node play.cjs)
expected='2 s after the end of its 300 ms: with the cache owner, asked past the cache nothing, with the cache then nothing'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  echo "This has changed. Expected: $expected" >&2
  exit 1
fi
