import { setTimeout as delay } from 'node:timers/promises';
import { Program } from '../../support/program.ts';
import { createTables, effectsOf, OPEN } from './databases.ts';
import { BESIDE_DDL, openEach, urlFor, type KilledRuns, type OnceProcess } from './open-once.ts';
import type { Point } from './stops.ts';

/** What became of the work of one key. */
export interface Outcome {
  readonly point: Point;
  /** How often its effect is in the table. */
  readonly effects: number;
  /** Whether all later calls got the same bytes, which are those of the effect. */
  readonly isSame: boolean;
}

/** Plays runs until their process is killed; then calls again for each key, twice from one process and once from another. */
export async function killAndRepeat(settings: KilledRuns): Promise<Outcome[]> {
  for (const url of new Set(settings.runs.map(({ key }) => urlFor(settings, key)))) {
    const database = OPEN[settings.kind]!(url);
    await createTables(database);
    await database.run(BESIDE_DDL);
    await database.close();
  }
  const program = new Program('test/once/support/killed-program.ts', settings);
  await program.closed;
  if (program.child.signalCode !== 'SIGKILL') throw program.end!;
  const [ones, others] = [openEach(settings), openEach(settings)];
  const outcomes: Outcome[] = [];
  for (const { key, point } of settings.runs) {
    const [one, other] = [await ones.for(key), await others.for(key)];
    const answers = [await whenDone(one, key), await other.call(key), await one.call(key)];
    const effects = await effectsOf(one.database, key);
    const isSame = new Set(answers).size === 1 && answers[0]!.includes(effects[0]!);
    outcomes.push({ point, effects: effects.length, isSame });
  }
  await ones.close();
  await others.close();
  return outcomes;
}

/** The control has no lock: while its record says that the work is in progress, it rejects. */
async function whenDone({ call }: OnceProcess, key: string): Promise<string> {
  for (; ; await delay(50)) {
    try {
      return await call(key);
    } catch (error) {
      if (!String(error).includes('in progress')) throw error;
    }
  }
}
