import { setTimeout as sleep } from 'node:timers/promises';
import { FenceHistory } from './fence-conformance-history.ts';
import { demand, ticket, type FenceStore, type FenceTicket } from '../fence-store.ts';

/** Size of the stress. */
export interface FenceStressOptions {
  /** Sessions per resource, each with one or two writes. @default 60 */
  readonly sessions?: number;
  /** Sessions at the same time per resource. @default 8 */
  readonly workers?: number;
  /** @default 3 */
  readonly resources?: number;
  /** Share of tokens that repeat the number of the one before, with another holder. @default 0.15 */
  readonly duplicates?: number;
  /** Longest random pause between two steps. @default 3 */
  readonly maxPauseMs?: number;
}

/**
 * Holders with rising tokens overlap as if the lock did nothing; random pauses stand between all steps. A holder that is
 * refused gives up. In the end the accepted writes must form one chain.
 */
export async function stressFence(
  store: FenceStore,
  prefix: string,
  options: FenceStressOptions = {},
): Promise<void> {
  const { resources = 3, maxPauseMs = 3 } = options;
  const pause = (): Promise<void> => sleep(Math.random() * maxPauseMs);
  const names = Array.from({ length: resources }, (_none, index) => `${prefix}:${index}`);
  await Promise.all(names.map((resource) => stressResource(store, resource, options, pause)));
}

async function stressResource(
  store: FenceStore,
  resource: string,
  { sessions = 60, workers = 8, duplicates = 0.15 }: FenceStressOptions,
  pause: () => Promise<void>,
): Promise<void> {
  const history = new FenceHistory(store, resource);
  let started = 0;
  let token = 0;
  const worker = async (): Promise<void> => {
    while (started < sessions) {
      started += 1;
      if (token === 0 || Math.random() >= duplicates) token += 1;
      await session(history, ticket(resource, token, `session-${started}`), pause);
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  const last = ticket(resource, token + 1);
  await store.claim(last);
  demand(await history.readAndWrite(last, pause), 'the newest holder was refused');
  await history.check(last);
}

async function session(
  history: FenceHistory,
  by: FenceTicket,
  pause: () => Promise<void>,
): Promise<void> {
  await pause();
  if (!(await history.claim(by))) return;
  await pause();
  const goesOn = await history.readAndWrite(by, pause);
  if (goesOn && Math.random() < 0.5) await history.readAndWrite(by, pause);
}
