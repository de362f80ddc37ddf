import { CronTime } from 'cron';
import { RedlockConfigError } from '../core/errors.ts';

const DAY_MS = 86_400_000;
const LONGEST_INTERVAL_MS = 9 * 366 * DAY_MS;

/**
 * The instants of a cron expression in a time zone, in milliseconds since 1970.
 *
 * `cron` is only asked in UTC, where no clock is moved: on the night on which one is set back it has an instant too many (4.4.0 runs
 * `0 3 * * *` of Berlin at 02:00 and at 03:00). Times of day are numbers here, too: what a clock in UTC would show.
 */
export class CronTimes {
  readonly #expression: CronTime;
  readonly #clock: Intl.DateTimeFormat;
  readonly #isForEveryHour: boolean;

  /** @throws RedlockConfigError for no expression, one that names no time of the next eight years, and an unknown zone */
  constructor(expression: string, timeZone?: string) {
    try {
      this.#clock = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' });
    } catch {
      throw new RedlockConfigError('timeZone', timeZone, "give a name such as 'Europe/Berlin'");
    }
    try {
      this.#expression = new CronTime(expression);
      this.#isForEveryHour = this.#expression.toJSON()[2] === '*';
      this.next(Date.now());
    } catch (error) {
      const [reason = ''] = (error as Error).message.split(/\.?\n/);
      const fix = `give five fields, or six with seconds, such as '0 3 * * *' (${reason})`;
      throw new RedlockConfigError('expression', expression, fix);
    }
  }

  /**
   * The first instant after `atMs`. What falls into an hour that the clock leaves out comes at the end of it, and what falls into one
   * that comes twice comes the first time. An expression for every hour follows the hours that pass.
   */
  next(atMs: number): number {
    for (let time = atMs + this.#offset(atMs); ;) {
      time = this.#match(time);
      const earlierMs = this.#isForEveryHour ? atMs : time - DAY_MS;
      const before = this.#offset(earlierMs);
      const after = this.#offset(time - before);
      let foundMs = time - before;
      if (after !== before) {
        const changeMs = this.#change(earlierMs, foundMs, after);
        if (this.#isForEveryHour) return this.#match(changeMs + after - 1) - after;
        foundMs = Math.max(changeMs, time - after);
      }
      if (foundMs > atMs) return foundMs;
    }
  }

  /** The last instant up to `atMs`. @param knownMs one that is probably it */
  latest(atMs: number, knownMs = atMs): number | undefined {
    if (knownMs < atMs && this.next(knownMs) > atMs) return knownMs;
    for (let backMs = 1_000; backMs < LONGEST_INTERVAL_MS; backMs *= 4) {
      const foundMs = this.between(atMs - backMs, atMs).at(-1);
      if (foundMs !== undefined) return foundMs;
    }
    return undefined;
  }

  /** All instants after `fromMs`, up to `toMs`. */
  between(fromMs: number, toMs: number): number[] {
    const found = [];
    for (let ms = this.next(fromMs); ms <= toMs; ms = this.next(ms)) found.push(ms);
    return found;
  }

  /** The first time of day after `time` that the expression names. */
  #match(time: number): number {
    return this.#expression.getNextDateFrom(new Date(time), 'UTC').toMillis();
  }

  /** The first instant of the offset that is that of `toMs`, and not that of `fromMs`. */
  #change(fromMs: number, toMs: number, offset: number): number {
    let [low, high] = [fromMs, toMs];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.#offset(middle) === offset) high = middle;
      else low = middle;
    }
    return high;
  }

  /** By how much the clock of the zone is ahead of UTC. */
  #offset(atMs: number): number {
    const [, sign, ...parts] = /GMT([+-])(\d+):(\d+)/.exec(this.#clock.format(atMs)) ?? [];
    const [hours = 0, minutes = 0] = parts.map(Number);
    return (sign === '-' ? -60_000 : 60_000) * (hours * 60 + minutes);
  }
}
