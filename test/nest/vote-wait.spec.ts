import 'reflect-metadata';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService, RedlockModule, type RedlockModuleOptions } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { closeAll, closeLater } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

/** The guard of a server is that of a key prefix: for each one the servers are new. */
const newPrefix = () => `lock:${randomUUID()}:`;
const WAITING = 'until a quorum may vote';

describe('an application over servers that may not vote yet', () => {
  const servers = useRedisServers(3, { own: true });
  afterEach(closeAll);
  afterEach(() => Logger.overrideLogger(false));
  afterEach(async () => {
    for (const server of servers) if (!server.isRunning) await server.restart();
  });

  /** Compiled, and with an HTTP server, which can be closed before it has started. */
  async function application(options: Partial<RedlockModuleOptions>) {
    const recorder = new Recorder();
    const all = { nodes: servers.map(({ url }) => url), ttl: 1_000, keyPrefix: newPrefix() };
    const redlock = RedlockModule.forRoot({ ...all, ...options });
    const module = await Test.createTestingModule({ imports: [redlock] })
      .setLogger(recorder)
      .compile();
    const app = closeLater(module.createNestApplication());
    return { app, recorder, locks: app.get(LockService) };
  }

  async function start(options: Partial<RedlockModuleOptions>) {
    const started = await application(options);
    await started.app.init();
    return started;
  }

  const lockAtOnce = (locks: LockService) => locks.withLock('a', () => 'locked', { wait: 0 });
  const quarantined = {
    code: 'QUORUM_UNAVAILABLE',
    causes: expect.arrayContaining([expect.objectContaining({ reason: 'quarantined' })]),
  };

  it('waits for their restart guard, and says at once why and what ends it in development', async () => {
    const { app, recorder, locks } = await application({});
    const starting = app.init();
    await recorder.said(WAITING);
    expect(recorder.lines.join('\n')).toMatch(
      /log Waiting [\d.]+ s until .*restart guard.*waitForVotes: false .*restartGuard: false/,
    );
    expect(recorder.lines.join('\n')).not.toContain('Locks over');
    await starting;
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
    expect(recorder.warnings).toBe('');
  });

  it('does not wait with waitForVotes: false', async () => {
    const { recorder, locks } = await start({ waitForVotes: false, ttl: '10s' });
    await expect(lockAtOnce(locks)).rejects.toMatchObject(quarantined);
    expect(recorder.lines.join('\n')).not.toContain(WAITING);
  });

  it.each([
    ['the guard is off', { restartGuard: false }],
    ['the nodes are in memory', { nodes: createMemoryNodes(3) }],
    ['they have served it', { keyPrefix: newPrefix() }],
  ])('does not wait where %s', async (where, options) => {
    if (where === 'they have served it') await start(options);
    const { recorder, locks } = await start(options);
    expect(recorder.lines.join('\n')).not.toContain(WAITING);
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it('starts at once where the guard is longer than startupTimeout, and warns when they vote', async () => {
    const { recorder, locks } = await start({ ttl: '30s', startupTimeout: '5s' });
    expect(recorder.warnings).toMatch(/A quorum may vote in [.\d]+ s.*'startupTimeout' of 30 s/);
    await expect(lockAtOnce(locks)).rejects.toMatchObject(quarantined);
  });

  it('waits again for servers that restart meanwhile', async () => {
    const { app, recorder, locks } = await application({ ttl: '3s' });
    const starting = app.init();
    await recorder.said(WAITING);
    await sleep(1_000);
    await Promise.all(servers.slice(1).map((server) => server.restart()));
    await starting;
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it('is refused when they leave meanwhile and do not come back', async () => {
    const { app, recorder } = await application({ startupTimeout: '2s' });
    const starting = app.init();
    starting.catch(() => undefined);
    await recorder.said(WAITING);
    await Promise.all(servers.slice(1).map((server) => server.kill()));
    await expect(starting).rejects.toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
      causes: servers
        .slice(1)
        .map(({ port }) => expect.objectContaining({ address: `127.0.0.1:${port}` })),
    });
  });

  it('is not refused for the time in which the event loop was blocked', async () => {
    const { app, recorder, locks } = await application({ startupTimeout: '1500ms' });
    const starting = app.init();
    setImmediate(() => block(2_000));
    await recorder.said(WAITING);
    // They are joined again after the block, or shortly before.
    await Promise.all(servers.map((server) => server.restart()));
    block(3_500);
    await starting;
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it.each(['SIGTERM', 'app.close()'])('lets the process end at once by %s', async (how) => {
    const keyPrefix = newPrefix();
    const urls = servers.map(({ url }) => url);
    const program = './test/nest/support/waiting-application.ts';
    const child = spawn(
      process.execPath,
      ['--import', './test/support/typescript-loader.mjs', program, how, keyPrefix, ...urls],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    let said = '';
    for await (const text of child.stdout) {
      said += String(text);
      if (how === 'SIGTERM' && said.includes('waiting')) child.kill(how);
    }
    expect(said).toBe('waiting\nclosed REDLOCK_CLOSED\n');
    const other = await start({ keyPrefix, ttl: '1m', waitForVotes: false });
    await expect(lockAtOnce(other.locks)).rejects.toMatchObject(quarantined);
  });

  it('ends the wait at once when it is closed, before it listens', async () => {
    const keyPrefix = newPrefix();
    const options = { keyPrefix, ttl: '1m', startupTimeout: '1m' } as const;
    const { app, recorder } = await application(options);
    const starting = app.listen(0);
    starting.catch(() => undefined);
    await recorder.said(WAITING);
    await app.close();
    await expect(starting).rejects.toMatchObject({ code: 'REDLOCK_CLOSED' });
    const other = await start({ ...options, waitForVotes: false });
    await expect(lockAtOnce(other.locks)).rejects.toMatchObject(quarantined);
  });

  function block(forMs: number): void {
    const untilMs = performance.now() + forMs;
    while (performance.now() < untilMs);
  }
});
