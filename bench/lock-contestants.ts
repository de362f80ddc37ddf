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
export const WITH_LOCK = 'withLock';
export const FENCED = '@Fenced';

const OURS: Readonly<
  Record<string, (name: string, urls: readonly string[]) => Promise<LockContestant>>
> = {
  [RAW]: (name, urls) => RawLock.connect(name, urls),
  [NOISE]: (name, urls) => RawLock.connect(name, urls),
  [RAW_FENCED]: (name, urls) => RawLock.connect(name, urls, true),
  [ACQUIRE]: connectRedlock,
  [WITH_LOCK]: connectWithLock,
  [FENCED]: connectFenced,
};

export function connectContestant(name: string, urls: readonly string[]): Promise<LockContestant> {
  const connect = OURS[name] ?? connectPeer;
  return connect(name, urls);
}

/** Contestants of this repository, then the other libraries that are installed. */
export function connectAll(
  names: readonly string[],
  urls: readonly string[],
): Promise<LockContestant[]> {
  const all = [...names, ...peerNames(urls.length)];
  return Promise.all(all.map((name) => connectContestant(name, urls)));
}
