import type { AnsweredEvent, AskedEvent } from '../campaign-event.ts';
import type { ObservedProcess } from './processes.ts';

/** One acquire. */
export interface Call {
  readonly asked: AskedEvent;
  /** As the lock knows them: each once. */
  readonly keys: readonly string[];
  readonly answered: AnsweredEvent | undefined;
  /** When it was answered, or when its process was last seen. */
  readonly endedAt: number;
}

/** The calls, in order of their begins; of the same moment, in the order in which they were written down. */
export function collectCalls(
  asked: readonly AskedEvent[],
  answered: readonly AnsweredEvent[],
  processes: ReadonlyMap<string, ObservedProcess>,
): Call[] {
  const answers = new Map(answered.map((event) => [event.call, event]));
  const calls = asked.map((event): Call => {
    const answer = answers.get(event.call);
    const endedAt = answer?.at ?? processes.get(event.process)!.lastSeenAt;
    return {
      asked: event,
      keys: [...new Set(event.keys)],
      answered: answer,
      endedAt,
    };
  });
  return calls.sort((a, b) => a.asked.at - b.asked.at);
}
