import 'reflect-metadata';
import { Controller, Get, Injectable, Query, type LoggerService } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Fenced,
  FencingToken,
  fencingToken,
  LockService,
  LockSignal,
  lockSignal,
  StaleTokenError,
} from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';

/** Resolves when `signal` aborts. */
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));

@Controller('searches')
class Searches {
  readonly began: string[] = [];
  /** Searches that end by themselves; the others end when they are replaced. */
  readonly quick = new Set<string>();

  @Get()
  @Fenced('search:ana', { onBusy: 'replace' })
  async search(@Query('text') text: string, @LockSignal() signal = lockSignal()): Promise<string> {
    this.began.push(text);
    if (!this.quick.has(text)) await aborted(signal);
    return `found ${text}`;
  }
}

describe("a method under @Fenced with onBusy: 'replace'", () => {
  afterEach(closeAll);

  it('runs for the newest call: the one that runs is replaced, and those that wait are overtaken', async () => {
    const module = await startModule({ providers: [Searches] });
    const searches = module.get(Searches);
    searches.quick.add('abcd');
    const calls: Promise<unknown>[] = [];
    for (const text of ['a', 'ab', 'abc', 'abcd']) {
      calls.push(Promise.allSettled([searches.search(text)]));
      await eventually(() => expect(searches.began).toContain(text));
    }
    const where = 'Searches.search';
    expect(await Promise.all(calls)).toMatchObject([
      [{ reason: { code: 'LOCK_LOST', reason: 'replaced', result: 'found a', where } }],
      [{ reason: { reason: 'replaced' } }],
      [{ reason: { reason: 'replaced' } }],
      [{ value: 'found abcd' }],
    ]);
    const [first, ...others] = ['1', '12', '123'].map((text) => searches.search(text));
    searches.quick.add('1234');
    expect(await searches.search('1234')).toBe('found 1234');
    expect(await Promise.allSettled([first, ...others])).toMatchObject([
      { reason: { code: 'LOCK_BUSY', isOvertaken: true, where } },
      { reason: { isOvertaken: true } },
      { reason: { isOvertaken: true } },
    ]);
    expect(searches.began).toEqual(['a', 'ab', 'abc', 'abcd', '1234']);
  });

  it('answers requests that are out of date with a status that is not to be tried again, and logs nothing', async () => {
    const warnings: unknown[] = [];
    const logger: LoggerService = {
      log() {},
      warn: (message: unknown) => void warnings.push(message),
      error: (message: unknown) => void warnings.push(message),
    };
    const module = await startModule({ controllers: [Searches] });
    const app = closeLater(module.createNestApplication({ logger }));
    app.useLogger(logger);
    // Without a listener, a warning says so after a time.
    app.enableShutdownHooks();
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    const searches = module.get(Searches);
    const get = async (text: string) => {
      const { status, headers } = await fetch(`${url}/searches?text=${text}`);
      return [status, headers.get('retry-after')];
    };
    searches.quick.add('ab');
    const old = get('a');
    await eventually(() => expect(searches.began).toEqual(['a']));
    expect(await get('ab')).toEqual([200, null]);
    expect(await old).toEqual([409, null]);
    expect(warnings).toEqual([]);
  });

  it('replaces the holder in another application, and brings its own token to the fence first', async () => {
    const nodes = createMemoryNodes(3);
    const claims: number[] = [];
    const fence = { claim: async ({ value }: { value: number }) => void claims.push(value) };
    @Injectable()
    class Reports {
      @Fenced('report:{0}', { onBusy: 'replace', claim: true })
      async build(
        _id: string,
        work: (signal: AbortSignal) => Promise<void>,
        @FencingToken() token = fencingToken(),
        @LockSignal() signal = lockSignal(),
      ) {
        await work(signal);
        return token.value;
      }
    }
    const start = async () =>
      (await startModule({ providers: [Reports] }, { nodes, fence })).get(Reports);
    const [one, other] = [await start(), await start()];
    let begun: () => void = () => undefined;
    const began = new Promise<void>((resolve) => (begun = resolve));
    const old = one.build('1', (signal) => (begun(), aborted(signal)));
    await began;
    const newest = await other.build('1', async () => undefined);
    // The fence has accepted its token, and rejected none of its writes.
    await expect(old).resolves.toBe(claims[0]);
    expect(claims[1]).toBe(newest);
    expect(newest).toBeGreaterThan(claims[0]!);
  });

  it('is not taken once more where the fence is ahead of its number, which would be above that of a newer call', async () => {
    const current = Date.now() * 1_000 + 60_000_000;
    let claims = 0;
    const claim = async ({ value }: { value: number }) => {
      claims += 1;
      if (value <= current) throw new StaleTokenError('a', String(value), String(current));
    };
    const locks = (await startModule({}, { fence: { claim } })).get(LockService);
    const options = { onBusy: 'replace', claim: true } as const;
    const call = () => locks.withLock('a', ({ token }) => token.value, options);
    await expect(call()).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(claims).toBe(1);
    expect(await call()).toBeGreaterThan(current);
  });

  it('is a choice of sections: acquire, which has no end of its own, does not take it', async () => {
    const locks = (await startModule({})).get(LockService);
    const options = { onBusy: 'replace' } as object;
    for (const call of [() => locks.acquire('a', options), () => locks.tryAcquire('a', options)])
      await expect(call()).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'onBusy' });
    await expect(locks.withLock('a', () => 'ran', options)).resolves.toBe('ran');
  });
});
