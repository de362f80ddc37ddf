#!/usr/bin/env bash
# BullMQ 6.7.0 on Redis 7.0.15: a worker that has lost its job still changes the job's data, under the worker that has it now.
#
# The lock of a job has a token, and every move of the job checks it: the late worker is refused when it completes the job. Its
# `updateData`, `updateProgress` and `log` take no token and are accepted. The manual keeps the step of a job in its data, so
# that a job that is tried again goes on where it was. Worker A freezes at the step "charge" and loses its lock, worker B charges
# and writes the step "mail", A wakes and writes "charge" again. When B fails now, the next try charges a second time.
#
# Seen: A's updateData accepted, updateProgress accepted, log accepted, moveToCompleted Lock mismatch; step of the next try charge
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
npm install --silent --no-audit --no-fund bullmq@6.7.0 ioredis@5.11.1
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
const { Queue, Worker } = require('bullmq');
const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
/** A worker whose jobs are taken by hand: nobody renews their locks, as in a process that is frozen. */
const byHand = (lockDuration) => new Worker('orders', null, { connection, lockDuration, stalledInterval: 200 });

async function take(worker, token) {
  for (;;) {
    const job = await worker.getNextJob(token, { block: false });
    if (job) return job;
    await pause(50);
  }
}

async function main() {
  const queue = new Queue('orders', { connection });
  const workers = [byHand(300), byHand(60_000)];
  await workers[1].startStalledCheckTimer();
  await queue.add('order', { step: 'charge' }, { attempts: 2 });

  const late = await take(workers[0], 'A');
  const current = await take(workers[1], 'B');
  await current.updateData({ step: 'mail' });
  const tries = {
    updateData: () => late.updateData({ step: 'charge' }),
    updateProgress: () => late.updateProgress(10),
    log: () => late.log('charging'),
    moveToCompleted: () => late.moveToCompleted('done', 'A', false),
  };
  const answers = [];
  for (const [name, call] of Object.entries(tries)) {
    const answer = await call().then(
      () => 'accepted',
      (error) => error.message.split(' for ')[0],
    );
    answers.push(`${name} ${answer}`);
  }
  await current.moveToFailed(new Error('no mail server'), 'B', false);
  const next = await take(workers[1], 'C');
  console.log(`A's ${answers.join(', ')}; step of the next try ${next.data.step}`);
  for (const worker of workers) await worker.close(true);
  await queue.close();
}
main();
JS

seen=$(node play.cjs)
expected="A's updateData accepted, updateProgress accepted, log accepted, moveToCompleted Lock mismatch; step of the next try charge"
echo "$seen"
if [ "$seen" != "$expected" ]; then
  echo "This has changed. Expected: $expected" >&2
  exit 1
fi
