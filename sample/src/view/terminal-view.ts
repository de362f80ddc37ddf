import type { StageEvent, StageRecord } from '../stage/stage-event.ts';
import type { StageLog } from '../stage/stage-log.ts';
import { after, INITIAL_STATE, type StageState } from '../stage/stage-state.ts';
import { paintFor, type Paint } from './paint.ts';
import { seconds, statusLine } from './status-line.ts';
import { summaryTable } from './summary-table.ts';
import { timelineLine } from './timeline-line.ts';

const STATUS_INTERVAL_MS = 100;
const CLEAR_LINE = '\r\u001B[2K';

export interface TerminalViewOptions {
  /** Tell of what is usual in a sale. @default true */
  readonly showsSales?: boolean;
}

/** Prints the story as it happens. On a terminal the last line shows where it stands; elsewhere there are only lines. */
export class TerminalView {
  #state: StageState = INITIAL_STATE;
  #showsEveryStep = false;
  readonly #showsSales: boolean;
  readonly #paint: Paint;
  readonly #startedMs = performance.now();
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #unsubscribe: () => void;

  constructor(
    log: StageLog,
    private readonly output: NodeJS.WriteStream,
    { showsSales = true }: TerminalViewOptions = {},
  ) {
    this.#showsSales = showsSales;
    this.#paint = paintFor(output);
    this.#unsubscribe = log.subscribe((record) => this.#show(record));
    if (output.isTTY) this.#timer = setInterval(() => this.#drawStatus(), STATUS_INTERVAL_MS);
  }

  /** A message that is not part of the story. */
  print(text: string): void {
    this.#write(`${text}\n`);
  }

  /** Stops following; nothing is drawn any more. */
  close(): void {
    clearInterval(this.#timer);
    this.#unsubscribe();
    this.#write('');
  }

  #show({ atMs, event }: StageRecord): void {
    this.#state = after(this.#state, event);
    if (event.type === 'act-started') {
      this.#showsEveryStep = event.showsEveryStep;
      const title = `${event.index + 1}. ${event.title}`;
      this.print(`\n${seconds(atMs)}  ${this.#paint('bold', title)}`);
      return;
    }
    if (event.type === 'summary') {
      this.print(`\n${summaryTable(event.rows, this.output.columns ?? 120, this.#paint)}`);
      return;
    }
    if (!this.#showsSales && isOfSale(event)) return;
    const line = timelineLine(event, this.#showsEveryStep, this.#paint);
    if (line !== undefined) this.print(`${seconds(atMs)}    ${line}`);
  }

  #drawStatus(): void {
    const elapsedMs = performance.now() - this.#startedMs;
    this.#write(statusLine(this.#state, elapsedMs, this.output.columns, this.#paint));
  }

  #write(text: string): void {
    this.output.write(this.output.isTTY ? CLEAR_LINE + text : text);
  }
}

/** Something that happens all the time in a sale: bookings, and what workers log about slow servers. */
function isOfSale(event: StageEvent): boolean {
  if (event.type === 'logged') return true;
  return event.type === 'step' && ['booked', 'found-taken'].includes(event.step.name);
}
