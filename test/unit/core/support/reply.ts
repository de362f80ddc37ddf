import type { VoteReply } from '../../../../lib/core/nodes/lock-node.ts';

/** What the numbers of an answer mean: `held:<holder>[@<index>]:<remainingMs>[:<floor>]`, and so on. */
const FIELDS: Record<string, readonly string[]> = {
  held: ['holder', 'remainingMs', 'floor'],
  stale: ['floor', 'nowMicros', 'byClock'],
  ahead: ['nowMicros', 'floor'],
  quarantined: ['remainingMs'],
};
const FAILED = { kind: 'failed', reason: 'error', message: 'refused' };

/** One answer, as the tables write it. */
export function reply(text: string): VoteReply {
  const [kind = '', ...values] = text.split(':');
  if (kind === 'yes') return { kind: values[0] === 'extended' ? 'extended' : 'accepted' } as never;
  if (kind === 'refused' || kind === 'unknown')
    return { ...FAILED, nothingWritten: kind === 'refused' } as never;
  const fields = (FIELDS[kind] ?? []).map((name, field) => {
    const value = values[field] ?? '0';
    return [name, name === 'holder' ? value.split('@')[0] : value === 'clock' || Number(value)];
  });
  const index = Number(values[0]?.split('@')[1] ?? 0);
  return { kind, index, byClock: false, ...Object.fromEntries(fields) };
}
