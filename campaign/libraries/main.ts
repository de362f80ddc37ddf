import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { chosen, keepHistory, OUT, readPartOptions, say, sayHow, someOf } from '../part-options.ts';
import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import { FAULTS, type Fault } from './faults.ts';
import { judge, type Figures } from './judge.ts';
import { COLUMNS, LIBRARIES, loadLibrary, type Column, type Library } from './library.ts';
import { SERVERS, type Servers } from './servers.ts';
import { Stage } from './stage.ts';
import { renderTable, type Played } from './table.ts';

/** Rows that are played side by side. */
const LANES = 2;
const PLAYS = 2;
const STRIKES = 2;
const SETTLED_MS = 300;
/** A row of a quick campaign: that of which the part is a promise. */
const QUICK = { library: 'ours', faults: ['none', 'stopped before write'] };

/** A row of the table, played with one seed. */
interface Row {
  readonly name: string;
  readonly library: Library;
  readonly column: Column;
  readonly seed: number;
}

const options = readPartOptions();
const played: Played[] = [];
const failures: string[] = [];

async function playRow(row: Row): Promise<void> {
  const { name, library, column, seed } = row;
  const settings = library[column]!;
  const servers = await SERVERS[library.servers](settings.servers);
  await settings.prepare?.(servers.urls);
  const stage = await Stage.open({ library: name, column, seed, servers });
  const faults = FAULTS.filter((each) => !options.isQuick || QUICK.faults.includes(each.name));
  for (const fault of faults) {
    const figures = await playCell(row, fault, stage, servers).catch((error: unknown) => {
      const what = `${name}, ${column}, ${fault.name} was not played: ${(error as Error).stack}`;
      if (settings.mayOverlap === undefined) say(what);
      else failures.push(what);
      return undefined;
    });
    played.push({ name, library, column, fault: fault.name, figures });
  }
  await stage.end();
  await servers.stop();
}

async function playCell(
  { name, library, column, seed }: Row,
  fault: Fault,
  stage: Stage,
  servers: Servers,
): Promise<Figures> {
  const history = await stage.play(fault.name.replaceAll(' ', '-'), async () => {
    for (let strike = 0; strike < STRIKES; strike += 1) {
      // The holder of the moment before has come back.
      await sleep(SETTLED_MS);
      await fault.strike(stage, servers);
    }
    await sleep(SETTLED_MS);
  });
  const figures = judge(history);
  const { overlaps, lost, untold, hangs, crashes } = figures;
  say(`${name}, ${column}, ${fault.name}, seed ${seed}: ${JSON.stringify(figures)}`);
  const broken = brokenPromise(figures, library[column]!.mayOverlap, fault.name);
  if (broken !== undefined) failures.push(`${name}, ${column}, ${fault.name}: ${broken}`);
  if (overlaps + lost + untold + hangs + crashes > 0 || broken !== undefined)
    say(`History: ${keepHistory(`libraries ${name} ${column} ${fault.name} ${seed}`, history)}`);
  return figures;
}

/** What we promise and the figures deny; what others do never makes the part red. */
function brokenPromise(
  figures: Figures,
  mayOverlap: readonly string[] | undefined,
  fault: string,
): string | undefined {
  if (mayOverlap === undefined) return undefined;
  const { lostFenced = 0, overlaps, disorder, crashes, hangs, rawErrors, grants } = figures;
  if (grants === 0) return 'no grants';
  if (lostFenced > 0) return `${lostFenced} updates lost behind the fence`;
  if (disorder > 0) return `${disorder} tokens out of order`;
  if (crashes + hangs + rawErrors.length > 0) return 'crashes, hangs or raw errors';
  return overlaps > 0 && !mayOverlap.includes(fault) ? `${overlaps} overlaps` : undefined;
}

/** The control of the judge: a lock of ours, whose holder is stopped before its write, loses updates where no fence is. */
function unseen(): string[] {
  const ours = played.filter(
    ({ library, column, fault }) =>
      library[column]!.mayOverlap !== undefined && fault === 'stopped before write',
  );
  return [...new Set(ours.map(({ name, column }) => `${name}, ${column}`))].filter((row) =>
    ours.every(({ name, column, figures }) => `${name}, ${column}` !== row || !figures?.lost),
  );
}

await installSqlite();
const names = chosen(
  LIBRARIES.map((name) => ({ name })),
  options.only === '' && options.isQuick ? QUICK.library : options.only,
);
const rows: Row[] = [];
for (const { name } of someOf(names, options.only)) {
  const library = await loadLibrary(name);
  for (const column of COLUMNS)
    for (let play = 0; library[column] && play < PLAYS; play += 1)
      rows.push({ name, library, column, seed: options.seed + play });
}
// Ours stand at the end of the table.
rows.sort((one, other) => Number(!one.library.package) - Number(!other.library.package));
const due = rows.values();
const lane = async (): Promise<void> => {
  for (const row of due) await playRow(row);
};
await Promise.all(Array.from({ length: LANES }, lane));
const inOrder = rows.flatMap((row) =>
  played.filter(({ name, column }) => name === row.name && column === row.column),
);
const text = renderTable([...new Set(inOrder)]);
mkdirSync(OUT, { recursive: true });
writeFileSync(`${OUT}/libraries.md`, `${text}\n`);
say(text);
for (const row of unseen()) failures.push(`${row}: the judge saw no lost update without a fence`);
for (const failure of failures) say(`FAILED: ${failure}`);
if (failures.length > 0)
  sayHow(options.only === '' ? 'libraries' : `libraries/${options.only}`, options);
say(`${played.length} cells, ${failures.length} failed`);
process.exit(failures.length > 0 ? 1 : 0);
