import { describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import * as commands from '../../../lib/redis/commands/script-command.ts';
import { REQUIRED_COMMANDS } from '../../../lib/redis/preflight.ts';
import { JOIN } from '../../../lib/redis/joining.ts';
import { PROBE, type Script } from '../../../lib/redis/scripts.ts';

const names = new NodeNames('lock:', ['a', 'b']);
const vote = { names, holder: 'holder', ballot: 1_795_000_000_000_000, ttlMs: 10_000 };
const { ScriptCommand } = commands.scriptCommands();
const owner = { voting: undefined, rejected: () => undefined };
const release = { names, holder: 'holder', granted: true, pass: false };

/** Script, what is sent for two locks after the command's name, and which of the forms that its header names that is. */
const CASES: readonly (readonly [string, Script, readonly (string | number)[], form?: number])[] = [
  sent('ACQUIRE', commands.ACQUIRE_CALL, vote),
  sent('EXTEND', commands.EXTEND_CALL, vote),
  sent('RELEASE', commands.RELEASE_CALL, release),
  [...sent('RELEASE', commands.RELEASE_CALL, { ...release, granted: false }), 1],
  sent('WAIT', commands.WAIT_CALL, {
    names: new NodeNames('lock:', ['a']),
    member: 'mark 10 channel',
    ticket: 0,
    lifeMs: 10_000,
  }),
  sent('INSPECT', commands.INSPECT_CALL, { names }),
  [
    'JOIN',
    JOIN,
    [JOIN.sha1, 3, 'marker', 'gate', 'configurations', 10_000, 600_000, 1, 1, '1 a', 'texts', ''],
  ],
  ['PROBE', PROBE, [PROBE.sha1, 2, 'probe', 'probe floor']],
];

function sent<Request>(
  name: string,
  call: commands.ScriptCall<Request, unknown>,
  request: Request,
): [string, Script, string[]] {
  const { text } = new ScriptCommand(call, request, () => undefined, owner);
  return [name, call.script, commands.argumentsOf(text).slice(1).map(String)];
}

describe.each(CASES)('the script %s', (name, script, sent, form = 0) => {
  const header = script.text.split('\n').filter((line) => line.startsWith('--'));
  const body = script.text.split('\n').filter((line) => !line.startsWith('--'));

  it('says in its header what it is, its KEYS, its ARGV and every reply', () => {
    expect(header[0]).toMatch(new RegExp(`^-- ${name}: \\w`));
    for (const part of ['KEYS', 'ARGV']) {
      expect(header.filter((line) => line.startsWith(`-- ${part}: `))).toHaveLength(1);
    }
    const text = header.join('\n');
    expect(text).toMatch(/^-- Returns /m);
    for (const [, code] of body.join('\n').matchAll(/return \{(-?\d)[,}]/g)) {
      expect(text).toMatch(new RegExp(`\\{${code}[,}]`));
    }
  });

  it('gets as many keys and values as the header names', () => {
    const [, numberOfKeys, ...rest] = sent;
    const keys = /^-- KEYS: (.*)$/m.exec(script.text)![1]!.split('; ')[form]!;
    const perLock = /(?:lock1|queue1|floor1) /g[Symbol.match](keys)?.length ?? 0;
    const words = keys.replace(/lock1.*$/, '');
    const fixed = words.split(words.includes(',') ? ',' : ' ').filter((word) => word !== '');
    expect(Number(numberOfKeys)).toBe(fixed.length + 2 * perLock);
    const values = /^-- ARGV: (.*)$/m.exec(script.text)![1]!.replaceAll(/\([^)]*\)/g, '');
    const named = values === 'none' ? [] : values.split(',');
    expect(rest.length - Number(numberOfKeys)).toBe(named.length);
    const highest = Math.max(
      0,
      ...[...script.text.matchAll(/\b(?:A|ARGV)\[(\d)\]/g)].map(([, index]) => Number(index)),
    );
    expect(highest).toBe(named.length);
  });

  it('is asked for by the digest of its text', () => {
    expect(sent[0]).toBe(createHash('sha1').update(script.text).digest('hex'));
  });

  it('uses no command that the list of required rights lacks', () => {
    const used = [...script.text.matchAll(/(?:call|try)\('([A-Z]+)'/g)].map(([, command]) =>
      command!.toLowerCase(),
    );
    expect(used.length).toBeGreaterThan(0);
    expect(REQUIRED_COMMANDS).toEqual(expect.arrayContaining(used));
  });
});

describe('the probe', () => {
  it('tries every command of the other scripts', () => {
    const commandsOf = (text: string) =>
      [...text.matchAll(/(?:call|try)\('([A-Z]+)'/g)].map(([, command]) => command!);
    const others = CASES.filter(([name]) => name !== 'PROBE').flatMap(([, { text }]) =>
      commandsOf(text),
    );
    expect(new Set(commandsOf(PROBE.text))).toEqual(new Set(others));
  });
});
