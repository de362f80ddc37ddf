import type { Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';

// Everything at once, by chance.

type Harm = (stage: Stage) => Promise<void>;

const harmOneServer: readonly Harm[] = [
  async (stage) => {
    const server = stage.servers[stage.someServers(1)[0]!]!;
    await server.freeze();
    await stage.pause(stage.random.between(100, 1_500));
    await server.resume();
  },
  async (stage) => {
    const server = stage.servers[stage.someServers(1)[0]!]!;
    await server.kill();
    await stage.pause(stage.random.between(0, 800));
    await server.restart();
    // It counts as away until it votes again.
    await stage.pause(stage.guardMs + 300);
  },
  async (stage) => {
    const nodes = stage.someServers(1);
    await stage.network.set({ kind: 'lose', direction: 'replies' }, { nodes });
    await stage.pause(stage.random.between(100, 1_000));
    await stage.network.set({ kind: 'pass' }, { nodes });
  },
  async (stage) => {
    const nodes = stage.someServers(1);
    await stage.network.set({ kind: 'hold', direction: 'both' }, { nodes });
    await stage.pause(stage.random.between(100, 1_500));
    await stage.network.set({ kind: 'pass' }, { nodes });
  },
];

const harmOneWorker: readonly Harm[] = [
  (stage) =>
    stage.stopWorker(stage.someWorkers(1)[0]!, stage.ttlMs * stage.random.between(0.2, 1.5)),
  (stage) => stage.killWorker(stage.someWorkers(1)[0]!, stage.random.between(0, 300)),
  (stage) =>
    stage.stopBetweenCheckAndWrite(
      stage.someWorkers(1)[0]!,
      stage.ttlMs * stage.random.between(1.1, 1.5),
    ),
];

/** One harm after another, with pauses, until `until`. */
async function lane(stage: Stage, harms: readonly Harm[], until: number): Promise<void> {
  while (performance.now() < until) {
    await stage.random.pick(harms)(stage);
    await stage.pause(stage.random.between(100, 500));
  }
}

const mixed = (name: string, durationMs: number, quick: Pick<Schedule, 'quick'>): Schedule => ({
  name,
  what: `for ${durationMs / 1_000} s one server at a time freezes, dies, or loses replies, while workers stop and die`,
  ...quick,
  async play(stage) {
    const until = performance.now() + durationMs;
    await Promise.all([lane(stage, harmOneServer, until), lane(stage, harmOneWorker, until)]);
  },
});

export const mixedSchedules: readonly Schedule[] = [
  mixed('mixed', 8_000, { quick: true }),
  mixed('mixed, long', 20_000, {}),
];
