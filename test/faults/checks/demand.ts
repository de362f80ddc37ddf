import type { Call } from './calls.ts';
import { difference, intersection, union, type Interval, type Timeline } from './intervals.ts';
import type { ObservedProcess } from './processes.ts';

/** A caller that comes back within this time did not stop asking. */
const PAUSE_MS = 50;

/**
 * When at least one process really asked for `key`, given all calls that name it.
 *
 * Inside a process calls stand in line for each key, and only the first of a line asks the servers. One that wants more
 * keys than this waits for all of them, and everybody behind it in this line waits with it: so a process asks for the key
 * while the first in its line wants this key alone and somebody in it is ready to wait. While it does not run, it asks
 * for nothing.
 */
export function demandFor(
  calls: readonly Call[],
  processes: ReadonlyMap<string, ObservedProcess>,
): Timeline {
  const byProcess = new Map<string, Call[]>();
  for (const call of calls) {
    const own = byProcess.get(call.asked.process);
    if (own) own.push(call);
    else byProcess.set(call.asked.process, [call]);
  }
  const asking = Array.from(byProcess).flatMap(([process, own]) => {
    const waiting = union(own.flatMap(waits));
    return difference(intersection(waiting, firstAlone(own)), processes.get(process)!.downtime);
  });
  return union(asking, PAUSE_MS);
}

function waits({ asked, keys, endedAt }: Call): Interval[] {
  if (keys.length > 1) return [];
  return [{ from: asked.at, to: Math.min(endedAt, asked.at + asked.waitMs) }];
}

/** When the first in line of one process wants one key alone; expects its calls in order of their begins. */
function firstAlone(calls: readonly Call[]): Timeline {
  const spans: Interval[] = [];
  const line = new Set<Call>();
  let from = -Infinity;
  let begun = 0;
  for (const ending of [...calls].sort((a, b) => a.endedAt - b.endedAt)) {
    for (; begun < calls.length && calls[begun]!.asked.at <= ending.endedAt; begun += 1) {
      const beginning = calls[begun]!;
      if (line.size === 0) from = beginning.asked.at;
      line.add(beginning);
    }
    const [first] = line;
    line.delete(ending);
    if (first !== ending) continue;
    if (ending.keys.length === 1) spans.push({ from, to: ending.endedAt });
    from = ending.endedAt;
  }
  return union(spans);
}
