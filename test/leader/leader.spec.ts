import 'reflect-metadata';
import { setImmediate } from 'node:timers/promises';
import { Scope, type Provider, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Lock, RedlockModuleOptions } from '../../lib/index.ts';
import { isLeader, Leader, type Candidate } from '../../lib/leader/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import {
  closeAll,
  redlockInMemory,
  silentLogger,
  startModule,
  stopTime,
} from '../nest/support/applications.ts';
import { Gate } from '../nest/support/critical-section.ts';
import { Recorder } from '../nest/support/recorder.ts';
import { cutOff, Fleet, leads, reconnect, type Process } from './support/fleet.ts';

const TTL_MS = 10_000;
const LONG_MS = 600_000;
const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

const never = () => new Promise<never>(() => undefined);

beforeEach(stopTime);
afterEach(closeAll);

describe('of the processes of a fleet', () => {
  it('one leads for as long as it lives, although its onElected has returned', async () => {
    const fleet = new Fleet();
    const options = { maxHold: '1m', minHold: '5s', extend: false } as const;
    const all = [await fleet.start('a', {}, options), await fleet.start('b', {}, options)];
    await pass(LONG_MS);
    expect(leads(all)).toEqual([true, false]);
    expect(fleet.story).toEqual(['a leads']);
    expect(all[0]!.events.map(({ type }) => type)).not.toContain('held-long');
  });

  it('the next one leads, under a larger token, as soon as the leader has shut down', async () => {
    const fleet = new Fleet();
    const [working, leaving] = [new Gate(), new Gate()];
    const code = { onElected: () => working.opened, onDeposed: () => leaving.opened };
    const first = await fleet.start('a', code, { minHold: '10s' });
    const next = await fleet.start('b');
    const closing = first.close();
    await pass(0);
    expect(leads([first, next])).toEqual([false, false]);
    expect(first.terms[0]!.signal.reason).toMatchObject({ code: 'REDLOCK_CLOSED' });
    working.open();
    await pass(0);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed']);
    leaving.open();
    await pass(0);
    expect(leads([first, next])).toEqual([false, true]);
    expect(next.terms[0]!.lock.token.value).toBeGreaterThan(first.terms[0]!.lock.token.value);
    await closing;
  });

  it('one that is cut off is deposed before the next one leads, within a ttl and a second', async () => {
    const fleet = new Fleet();
    const all = [await fleet.start('a'), await fleet.start('b')];
    cutOff(all[0]!);
    await pass(TTL_MS + 1_000);
    expect(leads(all)).toEqual([false, true]);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed', 'b leads']);
    reconnect(all[0]!);
    await pass(LONG_MS);
    expect(leads(all)).toEqual([false, true]);
    expect(fleet.recorder.warnings).not.toContain('still waits');
  });

  it('the next one is elected although the work of the old one goes on, which stands again only after that', async () => {
    const fleet = new Fleet();
    const gate = new Gate();
    const old = await fleet.start('a', { onElected: () => gate.opened });
    const next = await fleet.start('b');
    cutOff(old);
    await pass(3 * TTL_MS);
    expect(leads([old, next])).toEqual([false, true]);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'b leads']);
    expect(fleet.recorder.warnings).toContain('still runs 10 s after its term');
    reconnect(old);
    await next.close();
    await pass(LONG_MS);
    expect(fleet.story.slice(3)).toEqual(['b is told', 'b is deposed']);
    gate.open();
    await pass(1_000);
    expect(fleet.story.slice(5)).toEqual(['a is deposed', 'a leads']);
  });

  it('another one leads at once where the work of a leader fails, which stands again a second later', async () => {
    const fleet = new Fleet();
    const failure = new Error('no connection');
    const gate = new Gate();
    let isBroken = true;
    const fail = () => (isBroken ? Promise.reject(failure) : undefined);
    const code = { onElected: () => gate.opened.then(fail), onDeposed: fail };
    const all = [await fleet.start('a', code), await fleet.start('b')];
    gate.open();
    await pass(500);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed', 'b leads']);
    expect(all[0]!.terms[0]!.signal.reason).toBe(failure);
    const errors = fleet.recorder.lines.filter((line) => line.startsWith('error'));
    expect(errors).toEqual([
      expect.stringMatching(/Scheduler\.onElected failed.*no connection/),
      expect.stringMatching(/Scheduler\.onDeposed failed.*no connection/),
    ]);
    isBroken = false;
    await pass(500);
    await all[1]!.close();
    expect(leads(all)).toEqual([true, false]);
  });

  it('one whose work fails pauses for a second before it stands again', async () => {
    const fleet = new Fleet();
    await fleet.start('a', { onElected: () => Promise.reject(new Error('own')) });
    await pass(3_500);
    expect(fleet.story.filter((what) => what === 'a leads')).toHaveLength(4);
  });

  it('another one leads although the onDeposed of a leader whose work has failed never settles', async () => {
    const fleet = new Fleet();
    const code = { onElected: () => Promise.reject(new Error('own')), onDeposed: never };
    const all = [await fleet.start('a', code), await fleet.start('b')];
    await pass(TTL_MS - 1);
    expect(leads(all)).toEqual([false, false]);
    await pass(1);
    expect(leads(all)).toEqual([false, true]);
    await pass(LONG_MS);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed', 'b leads']);
  });

  it('another one leads after the shutdownTimeout of a leader whose work does not end', async () => {
    const fleet = new Fleet();
    const first = await fleet.start('a', { onElected: never }, { shutdownTimeout: '2s' });
    const next = await fleet.start('b');
    const closing = first.close();
    await pass(1_999);
    expect(leads([first, next])).toEqual([false, false]);
    await pass(1);
    expect(leads([first, next])).toEqual([false, true]);
    await closing;
  });

  it('one that shuts down waits for its work also where its term has been over for long', async () => {
    const fleet = new Fleet();
    const gate = new Gate();
    const old = await fleet.start('a', { onElected: () => gate.opened });
    cutOff(old);
    await pass(3 * TTL_MS);
    const closing = old.close().then(() => fleet.story.push('a is closed'));
    await pass(100);
    gate.open();
    await pass(TTL_MS);
    await closing;
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed', 'a is closed']);
  });

  it('one is elected after an outage, however long that was', async () => {
    const fleet = new Fleet();
    const occupied = await fleet.occupy();
    const only = await fleet.start('a');
    cutOff(only);
    await occupied.release();
    await pass(LONG_MS);
    expect(fleet.story).toEqual([]);
    reconnect(only);
    await pass(1_000);
    expect(leads([only])).toEqual([true]);
  });

  it('none is elected that waits while it shuts down', async () => {
    const fleet = new Fleet();
    const all = [await fleet.start('a'), await fleet.start('b')];
    await all[1]!.close();
    await all[0]!.close();
    await pass(LONG_MS);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed']);
  });

  it('none stays a leader whose lock was revoked, and it may be elected again', async () => {
    const fleet = new Fleet();
    const only = await fleet.start('a');
    await only.locks.revoke('leader:scheduler', { by: 'ana' });
    await pass(2 * TTL_MS);
    expect(fleet.story).toEqual(['a leads', 'a is told', 'a is deposed', 'a leads']);
    expect(only.terms[0]!.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
  });
});

describe('a leader', () => {
  it('is none any more right after its event loop was blocked, before its signal has aborted', async () => {
    jest.useRealTimers();
    const fleet = new Fleet();
    const { leader, terms } = await fleet.start('a', {}, { ttl: 200 });
    while (!isLeader(leader)) await setImmediate();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    expect([isLeader(leader), terms.at(-1)!.signal.aborted]).toEqual([false, false]);
  });

  it('is told of in events, with its method, its lock and its token', async () => {
    const fleet = new Fleet();
    const { events, terms, close } = await fleet.start('a');
    await pass(1_000);
    await close();
    const { value: token, holder } = terms[0]!.lock.token;
    const names = { where: 'Scheduler.onElected', template: 'leader:scheduler' };
    const about = { keys: ['leader:scheduler'], token, holder, ...names };
    expect(events.filter(({ type }) => ['elected', 'deposed'].includes(type))).toEqual([
      { type: 'elected', ...about },
      { type: 'deposed', ...about, heldMs: 1_000 },
    ]);
  });

  it('has its lock as the current one, also in work that it has started, until its term is over', async () => {
    const found: unknown[] = [];
    const gates = [new Gate(), new Gate()];
    const fleet = new Fleet();
    const only: Process = await fleet.start('a', {
      onElected() {
        for (const { opened } of gates) void opened.then(() => found.push(only.locks.current()));
      },
    });
    gates[0]!.open();
    await pass(0);
    await only.close();
    gates[1]!.open();
    await pass(0);
    expect(found).toEqual([only.terms[0]!.lock, undefined]);
  });

  it('logs no error of work that was told to end, and every other one', async () => {
    const errors = [new DOMException('aborted', 'AbortError'), new Error('own')];
    for (const error of errors) {
      const failsAfter = (_lock: Lock, signal: AbortSignal) =>
        new Promise<never>((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(error));
        });
      const fleet = new Fleet();
      const { close } = await fleet.start('a', { onElected: failsAfter });
      await close();
      const isLogged = fleet.recorder.lines.some((line) => line.startsWith('error'));
      expect(isLogged).toBe(error === errors[1]);
    }
  });
});

describe('a class under @Leader', () => {
  class Plain implements Candidate {
    readonly hooks: string[] = [];

    onElected(): void {
      this.hooks.push('onElected');
    }
  }

  const led = (name: string) => {
    @Leader(name)
    class Led extends Plain {}
    return Led;
  };
  const start = (...providers: Type[]) => startModule({ providers }, {});
  // Nest 11 does not close an application that won't start.
  const compile = async (providers: Provider[], options: Partial<RedlockModuleOptions> = {}) => {
    const building = Test.createTestingModule({ imports: [redlockInMemory(options)], providers });
    return building.setLogger(silentLogger).compile();
  };

  it('is one of several in an application, each of which leads', async () => {
    const [Scheduler, Mailer] = [led('scheduler'), led('mailer')];
    const module = await start(Scheduler, Mailer);
    await pass(0);
    expect([Scheduler, Mailer].map((each) => isLeader(module.get(each)))).toEqual([true, true]);
  });

  it('is refused at the start where another one has its name', async () => {
    const module = await compile([led('scheduler'), led('scheduler')]);
    await expect(module.init()).rejects.toThrow(/leader:scheduler/);
  });

  it('keeps its own hooks: stands after its start, and steps down before its end', async () => {
    @Leader('scheduler')
    class Scheduler extends Plain {
      async onApplicationBootstrap() {
        await Promise.resolve();
        this.hooks.push('onApplicationBootstrap');
      }

      onDeposed() {
        this.hooks.push('onDeposed');
      }

      onModuleDestroy() {
        this.hooks.push('onModuleDestroy');
      }
    }
    const module = await start(Scheduler);
    const { hooks } = module.get(Scheduler);
    await pass(0);
    await module.close();
    const order = ['onApplicationBootstrap', 'onElected', 'onDeposed', 'onModuleDestroy'];
    expect(hooks).toEqual(order);
  });

  it('is deposed by the end of a shutdown, and stands no more, where the hook of a subclass hides its own', async () => {
    const Base = led('scheduler');
    class Scheduler extends Base {
      onDeposed() {
        this.hooks.push('onDeposed');
      }

      onModuleDestroy() {
        this.hooks.push('onModuleDestroy');
      }
    }
    const module = await startModule({ providers: [Scheduler] }, { shutdownTimeout: 0 });
    const recorder = new Recorder();
    module.useLogger(recorder);
    await setImmediate();
    await module.close();
    await pass(LONG_MS);
    expect(module.get(Scheduler).hooks).toEqual(['onElected', 'onModuleDestroy', 'onDeposed']);
    expect(recorder.warnings).not.toContain('still waits');
  });

  it('is refused at decoration without onElected, under a second @Leader, and for a name that is no key', () => {
    expect(() => Leader('a')(class Idle {} as never)).toThrow(/Idle.*onElected/);
    expect(() => Leader('a')(led('b'))).toThrow(/no other @Leader/);
    expect(() => Leader('a')(class extends led('b') {})).toThrow(/no other @Leader/);
    expect(() => Leader('a'.repeat(2_000))(Plain)).toThrow(/1024 characters/);
    expect(() => Leader('')(Plain)).toThrow(/non-empty/);
  });

  it('is refused at the start where Nest builds no instance, or one for each request', async () => {
    const Scheduler = led('scheduler');
    const none = { provide: Scheduler, useFactory: () => new Scheduler() };
    await expect((await compile([none])).init()).rejects.toThrow(/did not build/);
    const many = { provide: Scheduler, useClass: Scheduler, scope: Scope.REQUEST };
    await expect((await compile([many])).init()).rejects.toThrow(/never run/);
  });

  it('fails at the start without RedlockModule', async () => {
    const starting = Test.createTestingModule({ providers: [led('scheduler')] }).compile();
    await expect(starting).rejects.toThrow('@Leader: import RedlockModule');
  });

  it('is not elected where the application does not start', async () => {
    jest.useRealTimers();
    const Scheduler = led('scheduler');
    const nodes = createMemoryNodes(3);
    nodes.forEach(({ server }) => server.freeze());
    const module = await compile([Scheduler], { nodes, startupTimeout: 1 });
    await expect(module.init()).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    expect(module.get(Scheduler).hooks).toEqual([]);
  });
});
