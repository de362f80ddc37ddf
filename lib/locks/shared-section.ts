import type { Lock } from '../core/lock.ts';

type Work = (lock: Lock) => any;
/** Begins a section; the signal ends its wait for the lock. */
type Begin = (work: Work, signal: AbortSignal) => Promise<any>;
/** Gives a call the outcome of a section, or the reason of its own signal when that aborts before. */
type Attach = (signal: AbortSignal | undefined) => Promise<any>;

/** What attaches calls to the sections that wait or run: by the method under `@Fenced`, or the service, that calls, and by keys. */
export type SharedSections = WeakMap<object, Map<string, Attach>>;

/** Attaches calls to the section of these keys, which begins when there is none. */
export function attachTo(
  sections: SharedSections,
  caller: object,
  keys: readonly string[],
  work: Work,
  begin: Begin,
): Attach {
  const ofCaller = sections.get(caller) ?? new Map<string, Attach>();
  sections.set(caller, ofCaller);
  const name = JSON.stringify(keys);
  const found = ofCaller.get(name);
  if (found !== undefined) return found;
  const attach = shared(work, begin, () => {
    if (ofCaller.get(name) === attach) ofCaller.delete(name);
  });
  ofCaller.set(name, attach);
  return attach;
}

function shared(work: Work, begin: Begin, forget: () => void): Attach {
  const abandoned = new AbortController();
  let calls = 0;
  let isRunning = false;
  const runs: Work = (lock) => {
    isRunning = true;
    return work(lock);
  };
  const outcome = begin(runs, abandoned.signal).finally(forget);
  return (signal) => {
    calls += 1;
    if (signal === undefined) return outcome;
    return new Promise((resolve, reject) => {
      const leave = () => {
        calls -= 1;
        reject(signal.reason as Error);
        // Nobody waits any more. What runs already is not interrupted.
        if (calls > 0 || isRunning) return;
        forget();
        abandoned.abort(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      const settled = outcome.then(resolve, reject);
      void settled.then(() => signal.removeEventListener('abort', leave));
    });
  };
}
