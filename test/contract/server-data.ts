import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { gateName } from '../../lib/redis/scripts.ts';
import type { ContractHarness } from './contract-harness.ts';

const FLOOR_DIGITS = 16;
const ANOTHER_RUN = 'f'.repeat(40);

/** Sends one command to the server, and resolves to its answer; null stands for nil. */
export type ServerCall = (name: string, ...values: (string | number)[]) => Promise<any>;

/** What a test does to the data of a server, of either kind, behind the back of its nodes. */
export function serverData(prefix: string, call: ServerCall) {
  const { marker } = new NodeNames(prefix, []);
  const changeMarker = async (change: (words: string[]) => string[]): Promise<void> => {
    const words = ((await call('GET', marker)) as string).split(' ');
    await call('SET', marker, change(words).join(' '));
  };
  return {
    markerName: marker,
    names: (...keys) => new NodeNames(prefix, keys),
    async nowMicros() {
      const [seconds, micros] = await call('TIME');
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    async readLock(lockName) {
      const holder = await call('GET', lockName);
      return holder === null ? null : { holder, remainingMs: await call('PTTL', lockName) };
    },
    async writeLock(lockName, holder, ttlMs) {
      await call('SET', lockName, holder, ...(ttlMs === null ? [] : ['PX', ttlMs]));
    },
    async deleteLock(lockName) {
      await call('DEL', lockName);
    },
    async readFloor(floorName) {
      const value = await call('GET', floorName);
      if (value === null) return null;
      const [floor, previous] = value.split(' ').map(Number) as [number, number];
      return { floor, previous, remainingMs: await call('PTTL', floorName) };
    },
    async writeFloor(floorName, { floor, previous }, ttlMs) {
      await call('SET', floorName, `${digits(floor)} ${digits(previous)}`, 'PX', ttlMs);
    },
    async deleteFloor(floorName) {
      await call('DEL', floorName);
    },
    async deleteMarker() {
      await call('DEL', marker);
    },
    endGuard: (atMs = 0) => changeMarker((words) => words.with(1, String(atMs))),
    async takeMarkerOfAnother() {
      await changeMarker((words) => words.with(2, ANOTHER_RUN));
      const gate = await call('GET', gateName(marker));
      if (gate === null) return;
      const another = gate.slice(0, 32) + ANOTHER_RUN.slice(0, 8) + gate.slice(40);
      await call('SET', gateName(marker), another, 'KEEPTTL');
    },
    writeVersions: (lowest, highest) =>
      changeMarker(([, ...words]) => [`${lowest}-${highest}`, ...words, 'later']),
  } satisfies Partial<ContractHarness>;
}

function digits(value: number): string {
  return String(value).padStart(FLOOR_DIGITS, '0');
}
