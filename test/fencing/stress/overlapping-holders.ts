import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRedlockError } from '../../../lib/core/errors.ts';
import { FencingToken } from '../../../lib/core/fencing-token.ts';

/** One holder of the worst possible lock, which gave the same resource to others at the same time. */
export class Session {
  readonly holder = randomUUID();
  readonly token: FencingToken;
  /** How many transactions it writes in. */
  readonly writes = 1 + Math.floor(Math.random() * 3);

  constructor(
    readonly resource: string,
    value: number,
    private readonly maxNapMs: number,
  ) {
    this.token = new FencingToken(value, [resource], this.holder);
  }

  /** Between all steps, so that every interleaving comes about. */
  async nap(): Promise<void> {
    if (Math.random() < 0.5) await sleep(Math.random() * this.maxNapMs);
  }
}

export interface HoldersOptions {
  readonly sessions: number;
  readonly workers: number;
  readonly resources: readonly string[];
  /** Share of sessions whose number was given out before, to another holder. Default 0. */
  readonly duplicates?: number;
  readonly maxNapMs?: number;
}

/**
 * Sessions take rising tokens and all overlap. A refused session gives up; any other error fails the stress.
 */
export async function runOverlappingHolders(
  options: HoldersOptions,
  run: (session: Session) => Promise<void>,
): Promise<{ refused: number }> {
  const { sessions, workers, resources, duplicates = 0, maxNapMs = 3 } = options;
  const issued = new Map<string, number>();
  let started = 0;
  let refused = 0;
  const worker = async (): Promise<void> => {
    while (started < sessions) {
      started += 1;
      const resource = resources[started % resources.length] as string;
      const last = issued.get(resource) ?? 0;
      const value = last > 0 && Math.random() < duplicates ? last : last + 1;
      issued.set(resource, value);
      const session = new Session(resource, value, maxNapMs);
      await session.nap();
      await run(session).catch((error: unknown) => {
        if (!isRedlockError(error) || error.code !== 'STALE_TOKEN') throw error;
        refused += 1;
      });
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return { refused };
}
