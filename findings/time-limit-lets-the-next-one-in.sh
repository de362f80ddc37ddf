#!/usr/bin/env bash
# async-lock 1.5.0, p-queue 9.3.5 and Bottleneck 2.19.5: a limit on the time of the work opens the lock while the work goes on.
#
# `maxExecutionTime`, `timeout` and `expiration` reject the caller's promise, as documented, and count the work as done. Nothing
# stops it, and nothing waits for it: the next caller is let in, and two are inside where one at a time was asked for. The
# caller cannot help it, for its own function has no signal that the time is over. async-lock's `maxOccupationTime`, next to it
# in the manual, lets the next one in only after the work has ended.
#
# Seen: async-lock maxExecutionTime, p-queue timeout, bottleneck expiration: first rejected, 2 inside at once; async-lock
#       maxOccupationTime and no limit: 1 inside
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund async-lock@1.5.0 p-queue@9.3.5 bottleneck@2.19.5

cat >play.mjs <<'JS'
import AsyncLock from 'async-lock';
import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';

const underLock = (options) => {
  const lock = new AsyncLock(options);
  return (work) => lock.acquire('account', work);
};
const queue = new PQueue({ concurrency: 1, timeout: 20 });
const limiter = new Bottleneck({ maxConcurrent: 1 });
const ways = {
  'async-lock maxExecutionTime': underLock({ maxExecutionTime: 20 }),
  'p-queue timeout': (work) => queue.add(work),
  'bottleneck expiration': (work) => limiter.schedule({ expiration: 20 }, work),
  'async-lock maxOccupationTime': underLock({ maxOccupationTime: 20 }),
  'async-lock without a limit': underLock({}),
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

for (const [name, exclusively] of Object.entries(ways)) {
  let inside = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++inside);
    await pause(200);
    inside--;
  };
  const [first] = await Promise.allSettled([exclusively(work), exclusively(work)]);
  await pause(500);
  console.log(`${name}: first ${first.status}, ${most} inside at once`);
}
JS

seen=$(node play.mjs)
expected='async-lock maxExecutionTime: first rejected, 2 inside at once
p-queue timeout: first rejected, 2 inside at once
bottleneck expiration: first rejected, 2 inside at once
async-lock maxOccupationTime: first rejected, 1 inside at once
async-lock without a limit: first fulfilled, 1 inside at once'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
