import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { ConsumerProject, removeProjects } from '../docs/consumer-project.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

describe('the command line, installed from the tarball', () => {
  const servers = useRedisServers(3, {
    acl: ['user default on nopass ~* &* +@all', 'user ops on >s3cret ~* &* +@all'],
  });
  const open = useRedlocks();
  let program = '';
  beforeAll(async () => {
    const { folder } = await ConsumerProject.write({});
    const installed = join(folder, 'node_modules/nestjs-fenced-lock');
    const { bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    program = join(installed, bin['nestjs-fenced-lock']);
  }, 120_000);
  afterAll(removeProjects);

  /** Runs it against all servers, which it gets from the environment unless others are given. */
  function run(...args: string[]): Promise<{ code: number; output: string }> {
    const nodes = servers.map(({ url }) => url.replace('//', '//ops:s3cret@')).join();
    const env = { ...process.env, REDLOCK_NODES: nodes };
    return new Promise((resolve) => {
      execFile(process.execPath, [program, ...args], { env }, (error, stdout, stderr) => {
        const output = stdout + stderr;
        expect(output).not.toContain('s3cret');
        resolve({ code: error === null ? 0 : Number(error.code), output });
      });
    });
  }

  it('says who holds which keys, and who waits for one, as lines and as JSON', async () => {
    const holder = await open(redisNodes(servers), { identity: () => 'the holder' });
    const other = await open(redisNodes(servers), { identity: () => 'the other' });
    await holder.acquire('seat:1');
    await holder.acquire('report:1');
    const waiting = other.acquire('seat:1', { wait: '1h' }).catch(() => undefined);
    const list = await run('ls', 'seat:1');
    expect([list.code, list.output]).toEqual([
      0,
      expect.stringMatching(/^KEY .*\nseat:1 .*the holder\n$/),
    ]);
    expect(await run('inspect', 'seat:1')).toMatchObject({ code: 1 });
    expect(await run('inspect', 'seat:2')).toMatchObject({ code: 0 });
    const found = JSON.parse((await run('inspect', 'seat:1', '--json')).output);
    expect(found).toMatchObject({ key: 'seat:1', process: { text: 'the holder' } });
    await eventually(async () =>
      expect((await run('waiters', 'seat:1')).output).toMatch(/the other/),
    );
    await holder.close();
    await other.close();
    await waiting;
  });

  it('takes a lock from its holder, and says when others get it', async () => {
    const holder = await open(redisNodes(servers), { ttl: '1h' });
    const held = await holder.acquire('seat:3');
    const { code, output } = await run('revoke', 'seat:3', '--reason', 'hangs', '--by', 'ana');
    expect([code, output]).toEqual([0, expect.stringMatching(/others get it in \d+ ms/)]);
    await expect(held.extend()).rejects.toMatchObject({ revoked: 'by ana: hangs' });
    const onOne = ['--node', servers[0]!.url, '--reason', 'hangs'];
    expect(await run('revoke', 'seat:3', ...onOne)).toMatchObject({ code: 1 });
  });

  it('finds what is wrong with the servers and with the nodes of processes, and joins nothing itself', async () => {
    const events: LockEvent[] = [];
    const onEvent = (event: LockEvent) => void events.push(event);
    const redlock = await open(redisNodes(servers), { onEvent, restartGuard: true });
    const good = await run('doctor', '--json');
    const messages = JSON.parse(good.output).map(({ message }: { message: string }) => message);
    expect(messages.join('\n')).not.toContain('two holders');
    const [first] = servers;
    const node = ['--node', first!.url];
    const alone = await run('doctor', ...node);
    expect(alone.code).toBe(1);
    expect(alone.output).toContain('one lock could have two holders');
    const keyPrefix = 'waits:';
    await open(redisNodes(servers), { ttl: '1m', restartGuard: true, keyPrefix });
    expect((await run('doctor', '--key-prefix', keyPrefix)).output).toContain(
      'only 0 of 3 servers give locks now',
    );
    await (await redlock.acquire('after', { wait: '1m' })).release();
    await open(redisNodes(servers), { onEvent });
    expect(events.filter(({ type }) => type === 'configurations-differ')).toEqual([]);
  });

  it('ends with 2 where it is used wrongly, and with 3 where too few servers answer', async () => {
    const away = ['--node', 'redis://127.0.0.1:1'];
    expect(await run('steal', 'a')).toMatchObject({ code: 2 });
    expect(await run('revoke', 'a')).toMatchObject({ code: 2 });
    expect(await run('inspect')).toMatchObject({ code: 2 });
    expect(await run('ls', '--node', 'http://u:s3cret@host')).toMatchObject({ code: 2 });
    for (const command of [['ls'], ['inspect', 'a'], ['waiters', 'a'], ['doctor']])
      expect(await run(...command, ...away)).toMatchObject({ code: 3 });
    const help = await run('revoke', '--help');
    expect([help.code, help.output]).toEqual([0, expect.stringContaining('--reason TEXT')]);
  });
});
