#!/usr/bin/env bash
# iovalkey 0.4.0 on Redis 7.0.15: `call('SET', …)` writes past the `keyPrefix` that `call('set', …)` and `set(…)` obey.
#
# The names of commands have no case in Redis, and `call` takes any command. iovalkey looks its keys up by the name as written,
# knows only names in lower case, and takes a command that it does not know for one without keys: no prefix, no error. A library
# that is given "a function that sends a command" may write the names in capitals, so that two applications with two prefixes share
# one counter or one lock, and what is written by one spelling is not found by the other. ioredis 5.11.1, from which iovalkey was
# taken, obeys the prefix in both.
#
# Seen: iovalkey: two applications by capitals owner+taken, in small letters owner+owner; ioredis: owner+owner, owner+owner
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
npm install --silent --no-audit --no-fund iovalkey@0.4.0 ioredis@5.11.1
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
/** Two applications with prefixes of their own take a lock of one name; the server's keys say which lock it was. */
async function play(name, command, flag) {
  const Client = require(name);
  const applications = ['a:', 'b:'].map((keyPrefix) => new Client(process.env.REDIS_PORT, '127.0.0.1', { keyPrefix }));
  await applications[0].flushall();
  const answers = [];
  for (const application of applications) {
    answers.push((await application.call(command, 'lock', 'x', flag)) === 'OK' ? 'owner' : 'taken');
  }
  const keys = await applications[0].keys('*');
  applications.forEach((application) => application.disconnect());
  return `${command} ${answers.join('+')} (keys ${keys.sort().join()})`;
}

async function main() {
  for (const name of ['iovalkey', 'ioredis']) {
    console.log(`${name}: ${await play(name, 'SET', 'NX')}, ${await play(name, 'set', 'nx')}`);
  }
}
main();
JS

seen=$(node play.cjs)
expected='iovalkey: SET owner+taken (keys lock), set owner+owner (keys a:lock,b:lock)
ioredis: SET owner+owner (keys a:lock,b:lock), set owner+owner (keys a:lock,b:lock)'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
