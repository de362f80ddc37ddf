import { Redis as Valkey } from 'iovalkey';
import { createClient } from 'redis';
import type { LockContestant } from './contestant.ts';
import { connectPeer, peerNames } from './peers.ts';
import { RawLock } from './raw-lock.ts';
import { connectFenced, connectRedlock, connectWithLock } from './redlock-contestant.ts';

/** The measure: every ratio is one to it. */
export const RAW = 'raw SET NX PX';
/** The measure once more: how far apart two equal things are in this run. */
export const NOISE = 'the same again (noise)';
export const RAW_FENCED = 'raw SET and INCR';
export const ACQUIRE = 'acquire and release';
/** The same by the client libraries that can be nodes beside ioredis. */
export const OVER_IOVALKEY = 'acquire and release over iovalkey';
export const OVER_NODE_REDIS = 'acquire and release over node-redis';
export const WITH_LOCK = 'withLock';
export const FENCED = '@Fenced';

const OURS: Readonly<
  Record<string, (name: string, urls: readonly string[]) => Promise<LockContestant>>
> = {
  [RAW]: (name, urls) => RawLock.connect(name, urls),
  [NOISE]: (name, urls) => RawLock.connect(name, urls),
  [RAW_FENCED]: (name, urls) => RawLock.connect(name, urls, true),
  [ACQUIRE]: connectRedlock,
  [OVER_IOVALKEY]: (name, urls) =>
    connectRedlock(
      name,
      urls.map((url) => new Valkey(url, { lazyConnect: true })),
    ),
  [OVER_NODE_REDIS]: (name, urls) =>
    connectRedlock(
      name,
      urls.map((url) => createClient({ url })),
    ),
  [WITH_LOCK]: connectWithLock,
  [FENCED]: connectFenced,
};

export function connectContestant(name: string, urls: readonly string[]): Promise<LockContestant> {
  const connect = OURS[name] ?? connectPeer;
  return connect(name, urls);
}

/** What is measured of the client libraries; the first one is the measure. */
export function connectClients(urls: readonly string[]): Promise<LockContestant[]> {
  const names = [ACQUIRE, OVER_IOVALKEY, OVER_NODE_REDIS];
  return Promise.all(names.map((name) => connectContestant(name, urls)));
}

/** Contestants of this repository, then the other libraries that are installed. */
export function connectAll(
  names: readonly string[],
  urls: readonly string[],
): Promise<LockContestant[]> {
  const all = [...names, ...peerNames(urls.length)];
  return Promise.all(all.map((name) => connectContestant(name, urls)));
}
