import type { BookingStep } from '../seats/booking-journal.ts';
import type { BookingResult } from '../stage/booking-result.ts';
import type { StageEvent } from '../stage/stage-event.ts';
import type { Paint } from './paint.ts';

const TONES = { good: ['bold', 'green'], bad: ['bold', 'red'] } as const;

/** Line of the timeline for an event, or undefined for an event that is not shown. */
export function timelineLine(
  event: StageEvent,
  showsEveryStep: boolean,
  paint: Paint,
): string | undefined {
  // The id of a seat, `C6/2`, ends with its evening; only locks and the database have to tell evenings apart.
  return lineOf(event, showsEveryStep, paint)?.replace(/\b([A-Z]\d)\/\d+/g, '$1');
}

function lineOf(event: StageEvent, showsEveryStep: boolean, paint: Paint): string | undefined {
  switch (event.type) {
    case 'narrated':
      return event.tone === undefined ? event.text : paint(TONES[event.tone], event.text);
    case 'act-skipped':
      return `${paint('bold', event.title)}: ${paint('yellow', `not played, ${event.reason}`)}`;
    case 'node':
      return paint(
        event.state === 'up' ? 'green' : 'red',
        `server ${event.node} is ${event.state}`,
      );
    case 'worker':
      return event.state === 'stopped'
        ? paint('red', `worker ${event.worker} is stopped`)
        : undefined;
    case 'step':
      return stepLine(event.worker, event.step, showsEveryStep, paint);
    case 'logged':
      return paint('dim', `worker ${event.worker}  ${firstSentence(event.text)}`);
    case 'booking-ended':
      return failureLine(event.result, paint);
    default:
      return undefined;
  }
}

function stepLine(
  worker: number,
  step: BookingStep,
  showsEveryStep: boolean,
  paint: Paint,
): string | undefined {
  const { seatId, customer, token, newerToken } = step;
  const who = `worker ${worker}  ${seatId}  ${customer.padEnd(5)}`;
  switch (step.name) {
    case 'claimed':
      return showsEveryStep ? `${who} has the lock, token ${token}` : undefined;
    case 'paid':
      return showsEveryStep ? `${who} has paid` : undefined;
    case 'found-taken':
      return paint('dim', `${who} too late, keeps the money`);
    case 'booked':
      return paint('green', `${who} booked, token ${token}`);
    case 'refused':
      return paint(
        ['bold', 'red'],
        `${who} rejected: the database has seen ${newerToken ?? 'a newer token'}`,
      );
    case 'refunded':
      return paint('yellow', `${who} refunded`);
  }
}

function failureLine(
  { worker, seatId, customer, error }: BookingResult,
  paint: Paint,
): string | undefined {
  if (!error) return undefined;
  const text = `${error.code ?? error.name}: ${firstSentence(withoutMethod(error.message))}`;
  return paint('yellow', `worker ${worker}  ${seatId}  ${customer.padEnd(5)} ${text}`);
}

/** Under `@Fenced` a message begins with the class and the method. */
function withoutMethod(message: string): string {
  return message.replace(/^\w+\.\w+: /, '');
}

/** Errors say at length what to do; one line of the timeline says what happened. */
function firstSentence(message: string): string {
  const end = message.search(/[.:;](\s|$)/);
  return end < 0 ? message : message.slice(0, end);
}
