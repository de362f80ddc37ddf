#!/usr/bin/env bash
# node-redis 5.12.1 and 6.3.1: a client that is destroyed while it connects becomes ready afterwards, and keeps the process alive.
#
# destroy() ends the socket that the client has, and while it connects it has none yet: the socket is kept in the function that waits for
# it. It says `end` and `isOpen` is false; then the socket connects, the client signs in, says `ready`, and connect() resolves. Nobody
# can use that connection, for commands are refused as closed, and in version 5 nobody can end it, for destroy() throws. An application
# that gives up during its start, because another part of it failed, calls destroy() in its shutdown and never ends; a program that
# tries one server after the other leaves a connection, with a login, on each.
#
# Seen: node-redis 5 and 6: ready after destroy(), the process does not end; destroy() a second time: throws in 5, ends it in 6; ioredis:
#       never ready, the process ends
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund redis-5@npm:redis@5.12.1 redis-6@npm:redis@6.3.1 ioredis@6.0.0

# A server that lets anybody in.
cat >server.cjs <<'JS'
const server = require('node:net').createServer((socket) => {
  socket.on('error', () => {});
  socket.on('data', (piece) => {
    for (const [, name] of String(piece).matchAll(/^\*\d+\r\n\$\d+\r\n(\w+)/gm)) {
      socket.write(/hello/i.test(name) ? '%1\r\n+proto\r\n:3\r\n' : '+OK\r\n');
    }
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
JS

cat >client.cjs <<'JS'
const [, , name, second] = process.argv;
const port = Number(process.env.PORT);
const host = '127.0.0.1';
const events = [];
if (name === 'ioredis') {
  const { Redis } = require('ioredis');
  const client = new Redis({ host, port, lazyConnect: true });
  for (const event of ['ready', 'end']) client.on(event, () => events.push(event));
  client.on('error', () => {});
  client.connect().catch(() => {});
  client.disconnect();
} else {
  const client = require(name).createClient({ socket: { host, port }, password: 'word' });
  for (const event of ['ready', 'end']) client.on(event, () => events.push(event));
  client.on('error', () => {});
  client.connect().catch(() => {});
  client.destroy();
  if (second) {
    client.once('ready', () => {
      try {
        client.destroy();
      } catch {
        events.push('throws');
      }
    });
  }
}
process.once('exit', () => console.log(`${events.join(', ')}; the process ended`));
process.once('SIGTERM', () => {
  process.removeAllListeners('exit');
  console.log(`${events.join(', ')}; the process lives`);
  process.exit();
});
JS

node server.cjs >port &
server=$!
trap 'kill "$server" || true; rm -rf "$folder"' EXIT
until [ -s port ]; do sleep 0.1; done
PORT=$(cat port)
export PORT
play() { echo "$1: $(timeout 10 node client.cjs "${@:2}" || true)"; }
seen=$(
  play 'node-redis 5' redis-5
  play 'node-redis 6' redis-6
  play 'node-redis 5, destroyed again' redis-5 second
  play 'node-redis 6, destroyed again' redis-6 second
  play ioredis ioredis
)
expected='node-redis 5: end, ready; the process lives
node-redis 6: end, ready; the process lives
node-redis 5, destroyed again: end, ready, throws; the process lives
node-redis 6, destroyed again: end, ready, end; the process ended
ioredis: end; the process ended'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
