import { describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { lockNames } from '../../../lib/core/nodes/node-names.ts';
import * as args from '../../../lib/redis/commands/script-arguments.ts';
import * as scripts from '../../../lib/redis/scripts/index.ts';
import { REQUIRED_COMMANDS } from '../../../lib/redis/preflight/required-rights.ts';

const names = lockNames('lock:', ['a', 'b']);
const join = { markerName: 'lock:#marker', restartGuardMs: 10_000, floorRetentionMs: 600_000 };
const vote = { names, holder: 'holder', ballot: 1_795_000_000_000_000, ttlMs: 10_000 };

/** Script, what is sent for two locks, and how many keys and values its header must name. */
const CASES = [
  ['ACQUIRE', scripts.ACQUIRE, args.acquireArguments(vote)],
  ['EXTEND', scripts.EXTEND, args.extendArguments(vote)],
  [
    'RELEASE',
    scripts.RELEASE,
    args.releaseArguments({ names, holder: 'holder', granted: true, notify: false }),
  ],
  ['JOIN', scripts.JOIN, args.joinArguments(join)],
  ['INSPECT', scripts.INSPECT, args.inspectArguments({ names })],
  ['PROBE', scripts.PROBE, args.scriptArguments(scripts.PROBE, ['probe', 'probe floor'])],
] as const;

describe.each(CASES)('the script %s', (name, script, sent) => {
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
    const keys = /^-- KEYS: (.*)$/m.exec(script.text)![1]!;
    const perLock = keys.includes('lock1') ? 2 : 0;
    const fixed = keys
      .replace(/lock1.*$/, '')
      .split(/[\s,]+/)
      .filter((word) => word !== '' && word !== 'floor');
    expect(numberOfKeys).toBe(fixed.length + 2 * perLock);
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
    expect(new Set(commandsOf(scripts.PROBE.text))).toEqual(new Set(others));
  });
});

describe('arguments', () => {
  it('carry the ballot in 16 digits, since floors are compared as strings', () => {
    expect(args.acquireArguments({ ...vote, ballot: 7 })).toContain('0000000000000007');
    expect(args.extendArguments({ ...vote, ballot: Number.MAX_SAFE_INTEGER })).toContain(
      '9007199254740991',
    );
  });

  it('are built once for all nodes, and again for the next request', () => {
    const request = { ...vote };
    expect(args.acquireArguments(request)).toBe(args.acquireArguments(request));
    expect(args.acquireArguments({ ...request, holder: 'other' })).toContain('other');
    expect(args.acquireArguments(request)).toContain('holder');
  });
});
