import 'reflect-metadata';
import { Inject, Injectable, Module, Scope } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, it, jest } from '@jest/globals';
import { Fenced, FencedInterceptor, LockService } from '../../lib/index.ts';
import {
  CronRuns,
  FencedCron,
  fencedRunCoordinator,
  type CronRun,
} from '../../lib/schedule/index.ts';
import { silentLogger } from '../nest/support/applications.ts';
import { Gate } from '../nest/support/critical-section.ts';
import { Recorder } from '../nest/support/recorder.ts';
import { pass, settled, short, useFleet } from './support/fleet.ts';

const MINUTE_MS = 60_000;
const OPTIONS = { name: 'minutely', timeZone: 'UTC' };

/** Its run lasts until the test ends it. */
@Injectable()
class Minutely {
  readonly ran: string[] = [];
  gate: Gate | undefined;

  @FencedCron('* * * * *', OPTIONS)
  async run({ scheduled }: CronRun): Promise<void> {
    this.ran.push(short(scheduled));
    await this.gate?.opened;
  }
}

describe('@FencedCron', () => {
  const fleet = useFleet('2026-06-01T10:59:50Z');

  it('starts the jobs of all methods of a class and its parents, around the hooks of the class', async () => {
    const hooks: string[] = [];
    @Injectable()
    class Two extends Minutely {
      readonly other: string[] = [];

      @FencedCron('*/2 * * * *', { name: 'other', timeZone: 'UTC' })
      async second({ scheduled }: CronRun) {
        this.other.push(short(scheduled));
      }

      @FencedCron('*/3 * * * *', { name: 'third', timeZone: 'UTC' })
      async third({ scheduled }: CronRun) {
        this.other.push(`third ${short(scheduled)}`);
      }

      onApplicationBootstrap() {
        hooks.push('started');
      }

      onModuleDestroy() {
        hooks.push('stopped');
      }
    }
    const module = await fleet().start([Two]);
    await pass(4 * MINUTE_MS);
    await module.close();
    const { ran, other } = module.get(Two);
    expect(ran).toEqual(['11:00', '11:01', '11:02', '11:03']);
    expect(other.sort()).toEqual(['11:00', '11:02', 'third 11:00', 'third 11:03']);
    expect(hooks).toEqual(['started', 'stopped']);
  });

  it('is one job where two modules provide the class', async () => {
    @Module({ providers: [Minutely] })
    class One {}
    @Module({ providers: [Minutely] })
    class Other {}
    const module = await fleet().start([], undefined, silentLogger, [One, Other]);
    await pass(MINUTE_MS);
    const instances = [One, Other].map((each) =>
      module.select(each).get(Minutely, { strict: true }),
    );
    expect(instances[0]).not.toBe(instances[1]);
    expect(instances.flatMap(({ ran }) => ran)).toEqual(['11:00']);
  });

  it('refuses a name that two methods have', async () => {
    @Injectable()
    class Other {
      @FencedCron('0 3 * * *', OPTIONS)
      async nightly() {}
    }
    await expect(fleet().start([Minutely, Other])).rejects.toThrow(
      "Minutely.run and Other.nightly are both under @FencedCron with the name 'minutely', and each would take runs of the other. Give each job a name of its own.",
    );
    await pass(3 * MINUTE_MS);
    expect(fleet().told).toEqual([]);
  });

  it('refuses two classes that inherit one method', async () => {
    class One extends Minutely {}
    class Other extends Minutely {}
    await expect(fleet().start([One, Other])).rejects.toThrow(
      /^Two classes inherit Minutely\.run, which is under @FencedCron with the name 'minutely'/,
    );
  });

  it('makes no job of a method that overrides one, without having it itself', async () => {
    @Injectable()
    class Overriding extends Minutely {
      override async run() {
        this.ran.push('without a lock');
      }
    }
    const module = await fleet().start([Overriding]);
    await pass(3 * MINUTE_MS);
    expect(module.get(Overriding).ran).toEqual([]);
  });

  it('refuses a class that Nest builds for each request, and not at the start', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Context {}
    @Injectable()
    class Scoped extends Minutely {
      constructor(@Inject(Context) readonly context: Context) {
        super();
      }
    }
    const starting = fleet().start([Context, Scoped]);
    await expect(starting).rejects.toThrow(/'minutely' of Minutely.run would never run/);
  });

  it('refuses an instance that Nest did not build', async () => {
    const made = { provide: Minutely, useFactory: () => new Minutely() };
    await expect(fleet().start([made])).rejects.toThrow(
      /Minutely\.run is under @FencedCron, and Nest did not build this instance/,
    );
    await expect(new Minutely().run({} as CronRun)).rejects.toThrow(/Nest did not build/);
  });

  it.each([
    [{ name: '' }, /Wrong\.run: Option 'name'/],
    [{ name: 'job-{0}' }, /give a text without braces/],
    [{ timeZone: 'UTC' }, /Wrong\.run: Option 'name'.*give a text/],
    [{ name: 'job', missed: 'never' }, /Option 'missed'/],
    [{ name: 'job', catchUp: '1 hour' }, /Option 'catchUp'/],
    [{ name: 'job', onBusy: 'skip' }, /@FencedCron takes name, timeZone, missed, catchUp/],
  ])('refuses the options %j when it is read', (options, message) => {
    const decorate = () => {
      class Wrong {
        @FencedCron('0 3 * * *', options as never)
        async run() {}
      }
      return Wrong;
    };
    expect(decorate).toThrow(message);
  });

  it('refuses static methods, and those under @Fenced', () => {
    const both = () => {
      class Wrong {
        @Fenced('key')
        @FencedCron('0 3 * * *', OPTIONS)
        async run() {}
      }
      return Wrong;
    };
    const isStatic = () => {
      class Wrong {
        @FencedCron('0 3 * * *', OPTIONS)
        static async run() {}
      }
      return Wrong;
    };
    expect(both).toThrow(/^Wrong\.run is under @Fenced twice, or under @FencedCron as well/);
    expect(isStatic).toThrow(/^Wrong\.run is static/);
  });

  it('runs without locks in a test that replaces what takes them', async () => {
    const module = await Test.createTestingModule({
      imports: [fleet().locks()],
      providers: [Minutely],
    })
      .overrideProvider(FencedInterceptor)
      .useValue({
        run: async (_definition: object, _args: unknown[], method: () => unknown) => method(),
      })
      .setLogger(silentLogger)
      .compile();
    const minutely = module.get(Minutely);
    await minutely.run({ scheduled: new Date() } as CronRun);
    expect(minutely.ran).toEqual(['10:59']);
  });

  it('says so where the fence of the module can have no ledger', async () => {
    const logger = new Recorder();
    await fleet().start([Minutely], { fence: { claim: async () => undefined } }, logger);
    expect(logger.warnings).toMatch(/not in an SQL database, so cron jobs have no ledger/);
  });
});

describe('the shutdown of an application with jobs', () => {
  const fleet = useFleet('2026-06-01T10:59:50Z');

  it('waits for the run in progress, and begins none', async () => {
    const module = await fleet().start([Minutely], {
      fence: fleet().connect().fence,
      shutdownTimeout: '1h',
    });
    const minutely = module.get(Minutely);
    minutely.gate = new Gate();
    await pass(MINUTE_MS);
    let isClosed = false;
    const closing = module.close().then(() => (isClosed = true));
    await pass(5 * MINUTE_MS);
    expect(isClosed).toBe(false);
    minutely.gate.open();
    await settled();
    await closing;
    await pass(5 * MINUTE_MS);
    expect(minutely.ran).toEqual(['11:00']);
    expect(fleet().told).toEqual(['started 11:00', 'ended 11:00']);
    expect(jest.getTimerCount()).toBe(0);
  });
});

describe('the coordinator for node-cron', () => {
  const fleet = useFleet('2026-06-01T11:00:00Z');
  const KEY = 'nightly:2026-06-01T11:00:00.000Z';
  const NEXT = 'nightly:2026-06-01T11:01:00.000Z';
  const start = async (options?: object) => {
    const module = await fleet().start([], options);
    return { runs: module.get(CronRuns), plug: fencedRunCoordinator(module.get(LockService)) };
  };

  it('lets one process do a run, for good where there is a ledger', async () => {
    const [one, other] = [await start(), await start()];
    expect(await one.plug.shouldRun(KEY, 30_000)).toBe(true);
    expect(await other.plug.shouldRun(KEY, 30_000)).toBe(false);
    await one.plug.onComplete(KEY);
    await pass(10 * MINUTE_MS);
    expect(await other.plug.shouldRun(KEY, 30_000)).toBe(false);
    expect(await other.plug.shouldRun(NEXT, 30_000)).toBe(true);
    await other.plug.onComplete(NEXT);
    expect((await one.runs.list('nightly')).map(({ outcome }) => outcome)).toEqual([
      'done',
      'done',
    ]);
  });

  it('keeps the lock past the other timers where there is no ledger', async () => {
    const [one, other] = [await start({}), await start({})];
    expect(await one.plug.shouldRun(KEY, 30_000)).toBe(true);
    await one.plug.onComplete(KEY);
    await pass(5_000);
    expect(await other.plug.shouldRun(KEY, 30_000)).toBe(false);
  });

  it('lets the next run begin while the time of one is kept, but not while that runs', async () => {
    const [one, other] = [await start({}), await start({})];
    const after = (seconds: number) => `nightly:2026-06-01T11:00:0${seconds}.000Z`;
    expect(await one.plug.shouldRun(KEY, 30_000)).toBe(true);
    await pass(2_000);
    expect(await other.plug.shouldRun(after(2), 30_000)).toBe(false);
    await one.plug.onComplete(KEY);
    await pass(2_000);
    expect(await other.plug.shouldRun(after(4), 30_000)).toBe(true);
  });
});
