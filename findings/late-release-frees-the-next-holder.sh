#!/usr/bin/env bash
# proper-lockfile 4.1.2 and @verrou/core 0.5.2: who releases a lock too late frees the lock of the one who took it over, is told
# that all is well, and a third one enters beside the second.
#
# proper-lockfile: the manual says that `release` rejects when the lock was already compromised. It does so only after the next
# look at the file, once in `update` ms. A process that was frozen for longer than `stale` and releases first thing when it wakes
# removes the directory by its name, whosever it is. The new holder hears of it at its own next look, which by default ends its
# process.
# @verrou/core: the owner belongs to the lock object and not to the call. Two calls of one object, the natural thing for a
# constant of a module, are one owner: after the ttl of the first, its release passes for a release of the second. The owner is
# checked, and so the memory store answers both that they have released what they held.
#
# Seen: proper-lockfile: release of the first resolved, third held while the second holds
#       verrou: first released, second released, third entered while the second works
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund proper-lockfile@4.1.2 @verrou/core@0.5.2

touch account
cat >process.cjs <<'JS'
const { existsSync } = require('node:fs');
const { lock } = require('proper-lockfile');
const options = { stale: 5000, onCompromised: (error) => process.send(`lost ${error.code}`) };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let release;
const commands = {
  async take() {
    for (;;) {
      try {
        release = await lock('account', options);
        return 'held';
      } catch (error) {
        if (error.code !== 'ELOCKED') throw error;
        await pause(50);
      }
    }
  },
  takeOnce: () =>
    lock('account', options).then(
      () => 'held',
      (error) => error.code,
    ),
  freezeAndRelease() {
    const cell = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync('taken-over')) Atomics.wait(cell, 0, 0, 50);
    return release().then(
      () => 'resolved',
      (error) => error.code,
    );
  },
};
process.on('message', async (command) => process.send(await commands[command]()));
JS
cat >play.mjs <<'JS'
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { Verrou } from '@verrou/core';
import { memoryStore } from '@verrou/core/drivers/memory';

const [first, second, third] = [1, 2, 3].map(() => fork('process.cjs'));
const ask = async (child, command) => {
  child.send(command);
  return (await once(child, 'message'))[0];
};
await ask(first, 'take');
const released = ask(first, 'freezeAndRelease');
await ask(second, 'take');
writeFileSync('taken-over', '');
console.log(`proper-lockfile: release of the first ${await released}, third ${await ask(third, 'takeOnce')} while the second holds`);
for (const child of [first, second, third]) child.kill('SIGKILL');

const verrou = new Verrou({ default: 'memory', stores: { memory: { driver: memoryStore() } } });
const report = verrou.createLock('report', 200);
const working = new Set();
let beside = 'after the second';
const call = (name, ms) =>
  report
    .run(async () => {
      if (name === 'third' && working.has('second')) beside = 'while the second works';
      working.add(name);
      await new Promise((resolve) => setTimeout(resolve, ms));
      working.delete(name);
    })
    .then(
      () => `${name} released`,
      (error) => `${name} ${error.code}`,
    );
const answers = [call('first', 1500), call('second', 4000)];
await Promise.race(answers);
await call('third', 0);
console.log(`verrou: ${(await Promise.all(answers)).join(', ')}, third entered ${beside}`);
JS

seen=$(node play.mjs)
expected='proper-lockfile: release of the first resolved, third held while the second holds
verrou: first released, second released, third entered while the second works'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
