import type { Schedule } from '../run/schedule.ts';

/** Schedules without faults: what all others are compared with. */
export const steadySchedules: readonly Schedule[] = [
  {
    name: 'baseline',
    what: 'nothing fails',
    quick: true,
    play: (stage) => stage.pause(4_000),
    withoutEffect: ({ measures }) =>
      measures.extensions === 0 || measures.grants < 50
        ? `${measures.grants} grants and ${measures.extensions} extensions are too few`
        : undefined,
  },
  {
    name: 'contention',
    what: '32 callers in 4 processes want one record',
    quick: true,
    load: { callers: 8, keys: 1, holdMs: [0, 5], longShare: 0, setShare: 0, pauseMs: 0 },
    play: (stage) => stage.pause(4_000),
    withoutEffect: ({ measures }) =>
      measures.grants < 100 ? `${measures.grants} grants are too few` : undefined,
  },
];
