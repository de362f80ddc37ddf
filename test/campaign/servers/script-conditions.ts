import { eventually } from '../../support/eventually.ts';
import type { RedisServer } from '../../support/redis-servers/index.ts';
import { type ErrorCondition, type EndCondition, errorCondition } from './error-condition.ts';
import { openAdmin, pingAnswer, settingOf, withAdmin } from './server-admin.ts';

/** Ends only when it is killed, which is possible as it writes nothing. */
const ENDLESS = 'while true do end';

/** A script runs for longer than `lua-time-limit`: the server answers again, everybody with BUSY. */
export const busyCondition: ErrorCondition = errorCondition(
  { name: 'BUSY in a slow script', kind: 'refuses' },
  async (server) => {
    const run = await startEndlessScript(server, 1);
    await eventually(async () => expectPing(server, /^BUSY/));
    return () => run.kill();
  },
);

/** A script runs for `silentMs`, and keeps the server from answering anybody. */
export function slowScriptCondition(silentMs: number): ErrorCondition {
  return errorCondition({ name: 'silent in a slow script', kind: 'silent' }, async (server) => {
    const run = await startEndlessScript(server, silentMs);
    // Read as soon as the limit has passed.
    const killed = run.kill();
    killed.catch(() => undefined);
    return () => killed;
  });
}

/**
 * Keeps every client, or everybody who writes, waiting. `ALL` cannot be ended early: no command would be read. It ends by the
 * wall clock of the server, which had better not be moved back meanwhile.
 */
export function pauseCondition(mode: 'ALL' | 'WRITE', silentMs: number): ErrorCondition {
  return errorCondition({ name: `CLIENT PAUSE ${mode}`, kind: 'silent' }, async (server) => {
    await withAdmin(server, (admin) => admin.call('CLIENT', 'PAUSE', String(silentMs), mode));
    return async () => {
      if (mode === 'WRITE') await withAdmin(server, (admin) => admin.call('CLIENT', 'UNPAUSE'));
      await eventually(async () => expectPing(server, /^PONG/), { timeoutMs: silentMs + 20_000 });
    };
  });
}

interface RunningScript {
  /** Resolves when the script has ended and the setting is as before. */
  readonly kill: EndCondition;
}

/** Resolves when the server runs nothing but the script. For `limitMs` it listens to nobody, then to SCRIPT KILL. */
async function startEndlessScript(server: RedisServer, limitMs: number): Promise<RunningScript> {
  const [runner, killer] = await Promise.all([openAdmin(server), openAdmin(server)]);
  const before = await settingOf(killer, 'lua-time-limit');
  await killer.config('SET', 'lua-time-limit', limitMs);
  const ended = runner.eval(ENDLESS, 0).then(
    () => undefined,
    () => undefined,
  );
  await eventually(async () => expectPing(server, /^(no answer|BUSY)/, 50));
  return {
    kill: async () => {
      try {
        await killer.call('SCRIPT', 'KILL');
        await ended;
        await killer.config('SET', 'lua-time-limit', before);
      } finally {
        runner.disconnect();
        killer.disconnect();
      }
    },
  };
}

async function expectPing(server: RedisServer, wanted: RegExp, timeoutMs?: number): Promise<void> {
  const answer = await pingAnswer(server, timeoutMs);
  if (!wanted.test(answer)) throw new Error(`PING is answered with ${answer}`);
}
