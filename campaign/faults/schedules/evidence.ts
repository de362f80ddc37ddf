import type { Evidence, Schedule } from '../schedule.ts';

type WithoutEffect = Schedule['withoutEffect'];

export const outageNoticed: WithoutEffect = ({ measures }) =>
  measures.outages > 0 ? undefined : 'no caller was refused for the outage';

export const cutsNoticed =
  (least: number): WithoutEffect =>
  ({ history }) => {
    const cuts = history.filter(({ type }) => type === 'cut').length;
    return cuts < least ? `${cuts} connections were cut, not ${least}` : undefined;
  };

export const nobodyRefused = ({ measures: { refusals } }: Evidence): string | undefined =>
  Object.keys(refusals).length > 0 ? `callers failed: ${JSON.stringify(refusals)}` : undefined;

export const NO_IDLE_LIMIT = { limits: { idleMs: undefined } } as const;
