import { describe, expect, it } from '@jest/globals';
import { CronTimes } from '../../lib/schedule/cron-times.ts';

const HOUR_MS = 3_600_000;

/** The two nights of 2026: the clock is set forward in the first, and back in the second. */
const NIGHTS = {
  'Europe/Berlin': ['2026-03-29', '2026-10-25'],
  'America/New_York': ['2026-03-08', '2026-11-01'],
  'Europe/London': ['2026-03-29', '2026-10-25'],
  'Australia/Lord_Howe': ['2026-10-04', '2026-04-05'],
} as const;
type Zone = keyof typeof NIGHTS;

/** The runs on a day of the zone: local time and UTC. */
function runsOn(day: string, zone: Zone, expression: string): string[] {
  const times = new CronTimes(expression, zone);
  const fromMs = Date.parse(`${day}T00:00:00Z`) - 14 * HOUR_MS;
  const shown = new Intl.DateTimeFormat('sv', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'short',
  });
  return times.between(fromMs, fromMs + 48 * HOUR_MS).flatMap((ms) => {
    const [date, time] = shown.format(ms).split(' ');
    return date === day ? [`${time} ${new Date(ms).toISOString().slice(11, 16)}Z`] : [];
  });
}

const TABLE: readonly (readonly [Zone, string, spring: string[], autumn: string[]])[] = [
  ['Europe/Berlin', '30 1 * * *', ['01:30 00:30Z'], ['01:30 23:30Z']],
  ['Europe/Berlin', '30 2 * * *', ['03:00 01:00Z'], ['02:30 00:30Z']],
  ['Europe/Berlin', '0 3 * * *', ['03:00 01:00Z'], ['03:00 02:00Z']],
  ['Europe/Berlin', '*/30 2 * * *', ['03:00 01:00Z'], ['02:00 00:00Z', '02:30 00:30Z']],
  ['America/New_York', '30 1 * * *', ['01:30 06:30Z'], ['01:30 05:30Z']],
  ['America/New_York', '30 2 * * *', ['03:00 07:00Z'], ['02:30 07:30Z']],
  ['America/New_York', '0 2 * * *', ['03:00 07:00Z'], ['02:00 07:00Z']],
  [
    'America/New_York',
    '*/30 1 * * *',
    ['01:00 06:00Z', '01:30 06:30Z'],
    ['01:00 05:00Z', '01:30 05:30Z'],
  ],
  ['Europe/London', '30 1 * * *', ['02:00 01:00Z'], ['01:30 00:30Z']],
  ['Europe/London', '0 2 * * *', ['02:00 01:00Z'], ['02:00 02:00Z']],
  ['Europe/London', '15 2 * * *', ['02:15 01:15Z'], ['02:15 02:15Z']],
  ['Australia/Lord_Howe', '45 1 * * *', ['01:45 15:15Z'], ['01:45 14:45Z']],
  ['Australia/Lord_Howe', '15 2 * * *', ['02:30 15:30Z'], ['02:15 15:45Z']],
  ['Australia/Lord_Howe', '0 2 * * *', ['02:30 15:30Z'], ['02:00 15:30Z']],
];

describe('the times of a cron expression', () => {
  it.each(TABLE)(
    'of %s, %s: what the clock leaves out runs at the end of that, what comes twice the first time',
    (zone, expression, spring, autumn) => {
      const [forward, back] = NIGHTS[zone];
      expect(runsOn(forward, zone, expression)).toEqual(spring);
      expect(runsOn(back, zone, expression)).toEqual(autumn);
    },
  );

  it.each([
    ['Europe/Berlin', 46, 50],
    ['America/New_York', 46, 50],
    ['Europe/London', 46, 50],
    ['Australia/Lord_Howe', 47, 49],
  ] as const)(
    'of %s follow the hours that pass, where they are for every hour',
    (zone, short, long) => {
      const [forward, back] = NIGHTS[zone];
      expect(runsOn(forward, zone, '*/30 * * * *')).toHaveLength(short);
      expect(runsOn(back, zone, '*/30 * * * *')).toHaveLength(long);
      expect(runsOn(forward, zone, '15 * * * *').every((run) => run.slice(3, 5) === '15')).toBe(
        true,
      );
    },
  );

  /** Minute by minute: what a clock would do that only knows which time it shows. */
  function seenMinuteByMinute(zone: Zone, day: string, hours: string, minute: number): number[] {
    const clock = new Intl.DateTimeFormat('sv', {
      timeZone: zone,
      dateStyle: 'short',
      timeStyle: 'short',
    });
    const named = hours
      .split(',')
      .map((hour) => `${hour.padStart(2, '0')}:${String(minute).padStart(2, '0')}`);
    const found: number[] = [];
    const fromMs = Date.parse(`${day}T00:00:00Z`) - 14 * HOUR_MS;
    let passed = clock.format(fromMs);
    for (let ms = fromMs + 60_000; ms <= fromMs + 48 * HOUR_MS; ms += 60_000) {
      const shown = clock.format(ms);
      const isNow = [passed.slice(0, 10), shown.slice(0, 10)].some((date) =>
        named.some((time) => `${date} ${time}` > passed && `${date} ${time}` <= shown),
      );
      if (isNow) found.push(ms);
      if (shown > passed) passed = shown;
    }
    return found;
  }

  it.each(Object.keys(NIGHTS) as Zone[])(
    'of %s are those of a clock that is watched each minute',
    (zone) => {
      for (const day of NIGHTS[zone])
        for (const hours of ['2', '1,2,3'])
          for (const minute of [0, 30]) {
            const fromMs = Date.parse(`${day}T00:00:00Z`) - 14 * HOUR_MS;
            const times = new CronTimes(`${minute} ${hours} * * *`, zone);
            const own = times.between(fromMs, fromMs + 48 * HOUR_MS);
            expect([day, hours, minute, own]).toEqual([
              day,
              hours,
              minute,
              seenMinuteByMinute(zone, day, hours, minute),
            ]);
          }
    },
  );

  it('are found backwards, however long ago the last one was', () => {
    const at = Date.parse('2026-06-01T12:00:30Z');
    const latest = (expression: string, known?: number) =>
      new Date(new CronTimes(expression, 'UTC').latest(at, known)!).toISOString();
    expect(latest('* * * * * *')).toBe('2026-06-01T12:00:30.000Z');
    expect(latest('0 3 * * *')).toBe('2026-06-01T03:00:00.000Z');
    expect(latest('0 3 29 2 *')).toBe('2024-02-29T03:00:00.000Z');
    expect(latest('0 12 * * *', Date.parse('2026-05-31T12:00:00Z'))).toBe(
      '2026-06-01T12:00:00.000Z',
    );
  });

  it.each([
    ['0 3 * *', undefined, /Option 'expression'.*Too few fields/],
    ['0 25 * * *', undefined, /out of range/],
    ['0 0 30 2 *', undefined, /No execution date/],
    ['0 3 * * *', 'Europe/Atlantis', /Option 'timeZone'.*Europe\/Berlin/],
  ])('are refused for %j in %s', (expression, zone, message) => {
    expect(() => new CronTimes(expression, zone)).toThrow(message);
  });
});
