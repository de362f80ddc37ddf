import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencedUsageError, FencingToken, LockService } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';

const forged = { value: 9_999_999_999_999, keys: ['seat:1'], holder: 'me' } as never;

@Injectable()
class Seats {
  readonly keyFunctionSaw: unknown[] = [];

  constructor(private readonly locks: LockService) {}

  @Fenced((seatId: string) => `seat:${seatId}`)
  async book(
    seatId: string,
    userId: string,
    @FencingToken() token?: FencingToken,
  ): Promise<FencingToken | undefined> {
    if (seatId !== '1' || userId !== 'ana') throw new Error('other arguments were changed');
    return this.locks.current()?.token === token ? token : undefined;
  }

  @Fenced(function (...args: unknown[]) {
    seenByKey.push(...args);
    return 'seat:1';
  } as () => string)
  async first(@FencingToken() token?: FencingToken, seatId?: string): Promise<unknown[]> {
    return [token, seatId];
  }

  @Fenced('outer:{0}')
  async outer(seatId: string, @FencingToken() token?: FencingToken): Promise<FencingToken[]> {
    const again = await this.inner(seatId);
    return [token!, again!];
  }

  @Fenced('outer:{0}', { nested: 'join' })
  async inner(
    _seatId: string,
    @FencingToken() token?: FencingToken,
  ): Promise<FencingToken | undefined> {
    return token;
  }

  @Fenced(['a:{0}', 'b:{0}'])
  async both(_id: string, @FencingToken() token?: FencingToken): Promise<readonly string[]> {
    return token?.keys ?? [];
  }
}

let seenByKey: unknown[] = [];

describe('@FencingToken()', () => {
  afterEach(closeAll);
  afterEach(() => {
    seenByKey = [];
  });

  it('fills the parameter; callers need not pass it', async () => {
    const module = await startModule({ providers: [Seats] });
    const token = await module.get(Seats).book('1', 'ana');
    expect(token?.keys).toEqual(['seat:1']);
    expect(Number.isSafeInteger(token?.value)).toBe(true);
    expect(String(token)).toBe(String(token?.value));
    expect(Object.isFrozen(token)).toBe(true);
  });

  it('replaces what a caller passes', async () => {
    const module = await startModule({ providers: [Seats] });
    const token = await module.get(Seats).book('1', 'ana', forged);
    expect(token).not.toBe(forged);
    expect(token!.value).not.toBe(9_999_999_999_999);
  });

  it('hides what a caller passes from the key function', async () => {
    const module = await startModule({ providers: [Seats] });
    const [token, seatId] = await module.get(Seats).first(forged, '7');
    expect(token).not.toBe(forged);
    expect(seatId).toBe('7');
    expect(seenByKey).toEqual([undefined, '7']);
  });

  it('fills each parameter of a method that it marks, and none of a method that this one overrides', async () => {
    @Injectable()
    class Twice {
      @Fenced('seat:{0}')
      async book(_id: string, @FencingToken() a?: unknown, @FencingToken() b?: unknown) {
        return [a, b];
      }
    }
    @Injectable()
    class Once extends Twice {
      @Fenced('seat:{0}')
      override async book(_id: string, mine?: unknown, @FencingToken() token?: unknown) {
        return [mine, token];
      }
    }
    const module = await startModule({ providers: [Twice, Once] });
    const [first, second] = (await module.get(Twice).book('1')) as FencingToken[];
    expect([first, second?.keys]).toEqual([second, ['seat:1']]);
    const [mine, token] = await module.get(Once).book('1', 'mine');
    expect([mine, (token as FencingToken).keys]).toEqual(['mine', ['seat:1']]);
  });

  it('refuses to boot when a method has the parameter and no @Fenced, also by overriding', async () => {
    @Injectable()
    class Overriding extends Seats {
      override async inner(_seatId: string, @FencingToken() token?: FencingToken) {
        return token;
      }
    }
    const boot = startModule({ providers: [Overriding] });
    await expect(boot).rejects.toThrow(FencedUsageError);
    await expect(boot).rejects.toThrow(/^Overriding\.inner: @FencingToken\(\) without @Fenced/);
  });
});
