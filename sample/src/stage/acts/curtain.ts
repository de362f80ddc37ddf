import type { Act } from '../act.ts';
import type { Stage } from '../stage.ts';

/** Scene of what is left when all is over. */
export const curtain: Act = {
  title: 'Curtain',
  promises: [
    { id: 'typed', text: 'every failed booking has a documented error' },
    { id: 'free', text: 'no lock stays behind' },
    { id: 'ended', text: 'no worker crashed, and each ends by itself on shutdown' },
  ],
  async play(stage) {
    observeErrors(stage);
    await observeLocks(stage);
    const ended = await Promise.all(stage.workers.map((worker) => worker.shutDown()));
    stage.observe(
      'ended',
      ended.every(Boolean),
      `${ended.filter(Boolean).length} of ${ended.length} workers`,
    );
  },
};

function observeErrors(stage: Stage): void {
  const errors = stage
    .eventsSince(0)
    .flatMap((event) => (event.type === 'booking-ended' && event.result.error) || []);
  const unknown = errors.filter(({ isTyped }) => !isTyped);
  const codes = [...new Set(errors.map(({ code }) => code))];
  stage.observe(
    'typed',
    unknown.length === 0,
    unknown.map(({ name, message }) => `${name}: ${message}`).join('; ') ||
      `${errors.length} failed${errors.length > 0 ? `: ${codes.join(', ')}` : ''}`,
  );
}

async function observeLocks(stage: Stage): Promise<void> {
  const keys = new Set(
    stage
      .eventsSince(0)
      .flatMap((event) =>
        event.type === 'lock' && event.event.type === 'acquired' ? event.event.keys : [],
      ),
  );
  const held: string[] = [];
  for (const key of keys) {
    const { holder } = await stage.worker(1).inspect(key);
    if (holder !== null) held.push(key);
  }
  stage.observe('free', held.length === 0, held.join(', ') || `${keys.size} keys, all free`);
}
