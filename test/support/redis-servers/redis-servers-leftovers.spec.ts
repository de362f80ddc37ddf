import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { eventually } from '../eventually.ts';
import { processState } from '../process-state.ts';
import type { RedisWay } from './index.ts';

// A node process starts servers, one of them frozen, and then ends in every way a process can end. A server is known by
// its process id, its guard by the directory on its command line; containers are known by their ports only.

const SUPPORT = pathToFileURL(join(process.cwd(), 'test/support/')).href;
const PROGRAM = `
  const { findRedis } = await import('${SUPPORT}redis-servers/find-redis.ts');
  const provider = await findRedis({ own: true });
  const servers = await provider.start(3);
  await servers[0].freeze();
  await servers[1].kill();
  await servers[1].restart();
  process.stdin.resume();
  process.on('message', (end) => {
    if (end === 'exit') process.exit(0);
    if (end === 'throw') throw new Error('not caught');
    if (end === 'reject') void Promise.reject(new Error('not caught'));
    if (end === 'killed') void servers[2].kill().then(() => process.exit(0));
    if (end === 'finish') { process.stdin.destroy(); process.disconnect(); }
  });
  process.send({ way: provider.way, ports: servers.map(({ port }) => port), pids: servers.flatMap(({ pid }) => pid ?? []) });
`;

const NOTHING = { openPorts: 0, servers: 0, guards: 0, directories: 0 };
const SERVERS_AND_GUARDS = { openPorts: 3, servers: 3, guards: 3, directories: 3 };
const RUNNING: Partial<Record<RedisWay, object>> = {
  path: SERVERS_AND_GUARDS,
  package: SERVERS_AND_GUARDS,
  docker: { openPorts: 3 },
};

let temporary: string;
let child: ChildProcess;
let started: { way: RedisWay; ports: number[]; pids: number[] };

beforeEach(async () => {
  temporary = mkdtempSync(join(tmpdir(), 'leftovers-'));
  child = spawn(
    process.execPath,
    ['--import', `${SUPPORT}typescript-loader.mjs`, '--input-type=module', '--eval', PROGRAM],
    {
      env: { ...process.env, TMPDIR: temporary },
      stdio: ['pipe', 'ignore', 'ignore', 'ipc'],
      detached: true,
    },
  );
  [started] = (await once(child, 'message')) as [typeof started];
});

afterEach(() => {
  child.kill('SIGKILL');
  // Only a broken guard leaves any.
  for (const pid of started.pids.filter(isAlive)) process.kill(pid, 'SIGKILL');
  rmSync(temporary, { recursive: true, force: true });
});

describe('servers and their directories', () => {
  it.each(['exit', 'throw', 'reject', 'killed', 'finish'])(
    'are gone after their process ended by %s',
    async (end) => {
      await eventually(isRunning);
      child.send(end);
      await once(child, 'exit');
      await eventually(async () => expect(await remains()).toEqual(NOTHING));
    },
  );

  it.each(['SIGKILL', 'SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'are gone after their process received %s',
    async (signal) => {
      await eventually(isRunning);
      child.kill(signal);
      await once(child, 'exit');
      await eventually(async () => expect(await remains()).toEqual(NOTHING));
    },
  );

  it('are gone after their whole process group was interrupted, as Ctrl-C does', async () => {
    await eventually(isRunning);
    process.kill(-child.pid!, 'SIGINT');
    await once(child, 'exit');
    await eventually(async () => expect(await remains()).toEqual(NOTHING));
  });
});

/** The guard of a server that was restarted may still be on its way out. */
async function isRunning() {
  expect(await remains()).toMatchObject(RUNNING[started.way]!);
}

/** What is there of the servers; for containers, only the ports can be seen. */
async function remains() {
  const open = await Promise.all(started.ports.map(isOpen));
  return {
    openPorts: open.filter(Boolean).length,
    servers: started.pids.filter(isAlive).length,
    guards: commandsNaming(temporary).length,
    directories: readdirSync(temporary).length,
  };
}

/** Whether somebody listens; a frozen server does. */
function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => socket.destroy());
    socket.once('error', () => undefined);
    socket.once('close', (hadError) => resolve(!hadError));
  });
}

/** A zombie, which only waits for a slow init to take note of its end, is not alive. */
function isAlive(pid: number): boolean {
  return !['Z', undefined].includes(processState(pid));
}

/** Command lines of the living processes that contain `text`; slim machines have no ps, macOS has no /proc. */
function commandsNaming(text: string): string[] {
  const commands = existsSync('/proc/self/cmdline')
    ? readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map(commandOf)
    : execFileSync('ps', ['-axww', '-o', 'command='], { encoding: 'utf8' }).split('\n');
  return commands.filter((command) => command.includes(text));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
