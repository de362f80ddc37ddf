import 'reflect-metadata';
import {
  Controller,
  Injectable,
  UseGuards,
  type CanActivate,
  type LoggerService,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencingToken, type RedlockModuleOptions } from '../../lib/index.ts';
import { closeAll, closeLater, redlockInMemory } from './support/applications.ts';

class Seats {
  @Fenced('seat:{0}')
  async book(_seatId: string): Promise<string> {
    return 'booked';
  }
}

@Injectable()
class UnlockedSeats extends Seats {
  override async book(seatId: string): Promise<string> {
    return `unlocked ${seatId}`;
  }
}

@Injectable()
class LockedSeats extends Seats {
  @Fenced('seat:{0}')
  override async book(seatId: string): Promise<string> {
    return super.book(seatId);
  }
}

@Injectable()
class InheritingSeats extends Seats {
  async count(): Promise<number> {
    return 1;
  }
}

describe('the checks of the methods under @Fenced when the application starts', () => {
  afterEach(closeAll);

  async function start(
    classes: { providers?: any[]; controllers?: any[] },
    options: Partial<RedlockModuleOptions> = {},
  ): Promise<string[]> {
    const warnings: string[] = [];
    const logger: LoggerService = {
      log() {},
      error() {},
      warn: (message: string) => warnings.push(message),
    };
    const testing = Test.createTestingModule({ imports: [redlockInMemory(options)], ...classes });
    closeLater(await testing.setLogger(logger).compile());
    return warnings;
  }

  it('warn of an override that is not under @Fenced, and name it and the method it overrides', async () => {
    const warnings = await start({ providers: [UnlockedSeats, LockedSeats, InheritingSeats] });
    expect(warnings).toEqual([
      expect.stringMatching(
        /^UnlockedSeats\.book overrides Seats\.book, which is under @Fenced, .*unlocked.*super\.book\(\)/,
      ),
    ]);
  });

  it('look at guards, pipes and interceptors, which are not providers', async () => {
    @Injectable()
    class Guard implements CanActivate {
      async canActivate(@FencingToken() _token?: unknown): Promise<boolean> {
        return true;
      }
    }
    @Controller()
    @UseGuards(Guard)
    class Guarded {}
    await expect(start({ controllers: [Guarded] })).rejects.toThrow(
      /^Guard\.canActivate: @FencingToken\(\) without @Fenced/,
    );
  });

  it('refuse options of a method that do not fit those of the module, and name the method', async () => {
    class Slow {
      @Fenced('report', { ttl: '30s' })
      async run(): Promise<void> {}
    }
    const boot = start({ providers: [Slow] }, { ttl: '5s', maxTtl: '10s' });
    await expect(boot).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'ttl' });
    await expect(boot).rejects.toThrow(/^Slow\.run: Option 'ttl'.*maxTtl \(10000 ms\)/);
    await expect(start({ providers: [Slow] }, { maxTtl: '30s' })).resolves.toEqual([]);
  });
});
