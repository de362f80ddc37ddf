import { programSettings } from '../../support/program.ts';
import { openEach, type KilledRuns } from './open-once.ts';
import { killerAfter, stopping } from './stops.ts';

const settings = programSettings<KilledRuns>();
const processes = openEach(settings);
for (const stop of settings.runs) {
  const { call } = await processes.for(stop.key);
  const kill = stop.killMs === undefined ? undefined : await killerAfter(stop.killMs);
  await new Promise<void>((resolve, reject) => {
    const run = stopping(stop, kill ?? resolve, () => call(stop.key));
    run.then(() => kill || reject(new Error(`A run has passed '${stop.point}'`)), reject);
  });
}
