#!/usr/bin/env node
import { hostname } from 'node:os';
import { parseArgs } from 'node:util';
import { QuorumUnavailableError, RedlockConfigError, RedlockError } from '../core/errors.ts';
import { oneKey } from '../core/options/lock-keys.ts';
import { REDLOCK_DEFAULTS } from '../core/options/options.ts';
import { printable } from '../core/process-identity.ts';
import { doctor, inspect, ls, revoke, waiters } from './commands.ts';
import type { Command, Outcome } from './commands.ts';
import { withServers } from './servers.ts';

const COMMANDS: Readonly<Record<string, readonly [Command, takes: string, does: string]>> = {
  ls: [ls, '[PREFIX]', 'locks that are held, and by whom. Needs a user that may SCAN'],
  inspect: [inspect, 'KEY', 'who holds a key. Exit code 1 when it is held'],
  waiters: [waiters, 'KEY', 'processes that wait for a key, in their order'],
  revoke: [revoke, 'KEY --reason TEXT', 'takes a lock away; others get it when it expires'],
  doctor: [doctor, '', 'faults and risks of the servers, each with its fix. 1 when there are any'],
};

const COMMON = `
  --node URL         Redis server of the locks, once for each; or REDLOCK_NODES, separated by commas, in the environment.
                     With replicas the primary, in a cluster the one that has the key prefix: others say which that is
  --key-prefix TEXT  key prefix of the locks (${REDLOCK_DEFAULTS.keyPrefix})
  --json             JSON in place of lines
  --by TEXT          for revoke: who does it (user and host)

Exit codes: 0 done, 1 held (inspect), or something was found (revoke, doctor), 2 wrong use, or a right is missing,
3 too few servers answer, or have the locks.`;

const OPTIONS = {
  node: { type: 'string', multiple: true },
  'key-prefix': { type: 'string', default: REDLOCK_DEFAULTS.keyPrefix },
  reason: { type: 'string' },
  by: { type: 'string', default: `${process.env['USER'] ?? 'somebody'} at ${hostname()}` },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

async function run(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [name = '', argument = '', ...more] = positionals;
  const [command, takes = ''] = COMMANDS[name] ?? [];
  const isTooMany = more.length > 0 || (takes === '' && argument !== '');
  if (values.help || command === undefined || isTooMany) {
    const usage = Object.entries(COMMANDS).map(([each, [, ...words]]) => [each, ...words]);
    process.stdout.write(`nestjs-fenced-lock COMMAND\n${table(usage)}${COMMON}\n`);
    return values.help ? 0 : 2;
  }
  if (takes.startsWith('KEY')) oneKey(argument);
  if (command === revoke && !values.reason)
    throw new RedlockConfigError(
      '--reason',
      values.reason,
      'say why for those who look at the log',
    );
  const given = process.env['REDLOCK_NODES']?.split(',') ?? [];
  const urls = values.node ?? given.map((url) => url.trim()).filter(Boolean);
  if (urls.length === 0)
    throw new RedlockConfigError('--node', undefined, 'give --node URL, or REDLOCK_NODES');
  const { json, lines, code } = await withServers(urls, values['key-prefix'], (tool) =>
    command(tool, argument, values),
  );
  process.stdout.write(values.json ? `${JSON.stringify(json, undefined, 2)}\n` : table(lines));
  return code;
}

/** Makes columns as wide as their longest cell, but for the last one. */
function table(lines: Outcome['lines']): string {
  const widths = [0, 1, 2].map((at) =>
    Math.max(...lines.map((line) => (at + 1 < line.length ? line[at]!.length : 0))),
  );
  const texts = lines.map((line) =>
    line.map((cell, at) => printable(cell, 2_000).padEnd(widths[at] ?? 0)).join('  '),
  );
  return texts.map((text) => `${text.trimEnd()}\n`).join('');
}

// A reader such as `head` has seen enough when it ends.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

run(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error: Error & { readonly code?: string }) => {
    const isUse = error instanceof RedlockError || error.code?.startsWith('ERR_PARSE_ARGS');
    process.exitCode = error instanceof QuorumUnavailableError ? 3 : isUse ? 2 : 70;
    process.stderr.write(`${error.message}\n`);
  },
);
