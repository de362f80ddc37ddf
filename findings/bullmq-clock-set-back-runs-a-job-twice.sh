#!/usr/bin/env bash
# BullMQ 6.7.0: when the wall clock of a worker is set back, it no longer renews the locks of its jobs, and another worker runs them
# beside it. Neither of the two hears of it.
#
# A worker looks a few times per lock duration which of its locks are due, by Date.now(): a lock that was renewed at a time which is
# now ahead is not due until the clock has come there again. The server counts its own time, the lock ends, and the job is given to
# the next worker as stalled. The event loop of the first is idle all the while, so "stalled" is not what its manual means by it. The
# event lockRenewalFailed, on which one could cancel the job, does not come, because no renewal is tried.
#
# Here the clock is set back by 10 s, as a step of NTP or the end of a pause of a virtual machine does it, and a lock lasts for 1 s in
# place of 30. With the 30, it takes a step of half a minute.
#
# Seen: at once: run 1 by first, run 2 by second while run 1 goes on; lockRenewalFailed of first: 0
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
npm install --silent --no-audit --no-fund bullmq@6.7.0 ioredis@6.0.0
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

cat >worker.cjs <<'JS'
const { Worker } = require('bullmq');
const name = process.argv[2];
const now = Date.now;
let stepMs = 0;
Date.now = () => now() + stepMs;
const work = async (job) => {
  process.send({ ran: job.attemptsStarted, name });
  // One renewal comes before the step.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  if (name === 'first') stepMs = -10_000;
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  process.send({ ended: name });
};
const connection = { port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const worker = new Worker('jobs', work, { connection, lockDuration: 1_000, stalledInterval: 500 });
worker.on('error', () => undefined);
worker.on('lockRenewalFailed', () => process.send({ failed: name }));
worker.waitUntilReady().then(() => process.send({ ready: name }));
JS
cat >play.cjs <<'JS'
const { fork } = require('node:child_process');
const { Queue } = require('bullmq');
const seen = [];
const children = [];
const start = (name) => {
  const child = fork('worker.cjs', [name]);
  children.push(child);
  child.on('message', (message) => seen.push(message));
};
const until = async (test) => {
  while (!seen.some(test)) await new Promise((resolve) => setTimeout(resolve, 50));
};
(async () => {
  start('first');
  await until(({ ready }) => ready === 'first');
  await new Queue('jobs', { connection: { port: Number(process.env.REDIS_PORT) } }).add('job', {});
  await until(({ ran }) => ran === 1);
  start('second');
  await until(({ ended }) => ended === 'first');
  const runs = seen.filter(({ ran }) => ran).map(({ ran, name }) => `run ${ran} by ${name}`);
  const failed = seen.filter((message) => message.failed === 'first').length;
  console.log(`at once: ${runs.join(', ')} while run 1 goes on; lockRenewalFailed of first: ${failed}`);
  for (const child of children) child.kill('SIGKILL');
  process.exit();
})();
JS

seen=$(node play.cjs)
expected='at once: run 1 by first, run 2 by second while run 1 goes on; lockRenewalFailed of first: 0'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
