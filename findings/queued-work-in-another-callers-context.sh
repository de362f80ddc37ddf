#!/usr/bin/env bash
# async-lock 1.5.0, p-queue 9.3.5, fastq 1.20.3, async 3.2.6 and Bottleneck 2.19.5: work that had to wait runs in the
# AsyncLocalStorage context of another caller.
#
# A caller that finds the lock or the queue busy leaves its function there, and the one who is done before it calls that
# function, from its own context. The store is therefore not lost, which would be noticed, but a wrong one: the request, the
# tenant or the transaction of whoever came first, for everybody behind it. The first caller of an idle queue is always right,
# so that a test with one caller at a time passes. Code after `await` in the caller has the right context again. async-mutex
# 0.5.0 and p-limit 7.3.3 run each caller's work in its own context.
#
# Seen: tenants ann, ben and cyd in turn; async-lock, p-queue, fastq, async, bottleneck: ann ann ann; async-mutex, p-limit: ann
#       ben cyd; after the call, in all: ann ben cyd
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund async-lock@1.5.0 p-queue@9.3.5 fastq@1.20.3 async@3.2.6 bottleneck@2.19.5 async-mutex@0.5.0 p-limit@7.3.3

cat >play.mjs <<'JS'
import { AsyncLocalStorage } from 'node:async_hooks';
import async from 'async';
import AsyncLock from 'async-lock';
import { Mutex } from 'async-mutex';
import Bottleneck from 'bottleneck';
import fastq from 'fastq';
import PQueue from 'p-queue';
import pLimit from 'p-limit';

const lock = new AsyncLock();
const queue = new PQueue({ concurrency: 1 });
const workers = fastq.promise((work) => work(), 1);
const tasks = async.queue(async (work) => work(), 1);
const limiter = new Bottleneck({ maxConcurrent: 1 });
const mutex = new Mutex();
const limit = pLimit(1);
const ways = {
  'async-lock': (work) => lock.acquire('account', work),
  'p-queue': (work) => queue.add(work),
  fastq: (work) => workers.push(work),
  async: (work) => tasks.pushAsync(work),
  bottleneck: (work) => limiter.schedule(work),
  'async-mutex': (work) => mutex.runExclusive(work),
  'p-limit': (work) => limit(work),
};

const tenant = new AsyncLocalStorage();
for (const [name, exclusively] of Object.entries(ways)) {
  const inside = [];
  const after = [];
  const call = async () => {
    await exclusively(async () => {
      inside.push(tenant.getStore());
      await new Promise((resolve) => setTimeout(resolve, 5));
    });
    after.push(tenant.getStore());
  };
  await Promise.all(['ann', 'ben', 'cyd'].map((who) => tenant.run(who, call)));
  console.log(`${name}: ${inside.join(' ')}; after the call: ${after.join(' ')}`);
}
JS

seen=$(node play.mjs)
expected='async-lock: ann ann ann; after the call: ann ben cyd
p-queue: ann ann ann; after the call: ann ben cyd
fastq: ann ann ann; after the call: ann ben cyd
async: ann ann ann; after the call: ann ben cyd
bottleneck: ann ann ann; after the call: ann ben cyd
async-mutex: ann ben cyd; after the call: ann ben cyd
p-limit: ann ben cyd; after the call: ann ben cyd'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
