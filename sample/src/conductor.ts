import type { Arguments } from './arguments.ts';
import { Cleanup } from './stage/cleanup.ts';
import { playActs } from './stage/play-acts.ts';
import { STORY } from './stage/story.ts';
import { StageLog } from './stage/stage-log.ts';
import { Stage } from './stage/stage.ts';
import { exitCodeOf } from './stage/summary.ts';
import { TerminalView } from './view/terminal-view.ts';

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** A sale without end can't keep all that happened; the page needs far less. */
const KEPT_RECORDS = 1000;

/** The conductor: starts everything, has the story played or the page served, and leaves nothing behind. */
export async function conduct(options: Exclude<Arguments, { mode: 'help' }>): Promise<void> {
  const isServing = options.mode === 'serve';
  const log = new StageLog(isServing ? KEPT_RECORDS : undefined);
  const cleanup = new Cleanup();
  const view = new TerminalView(log, process.stdout, { showsSales: !isServing });
  endOnSignals(cleanup, view, isServing);
  try {
    if (isServing) {
      // The story needs no web server.
      const { servePage } = await import('./page/serve-page.ts');
      const url = await servePage(log, cleanup, options.port);
      if (!cleanup.hasStarted) view.print(`\nOpen ${url} (Ctrl-C ends everything)\n`);
      // The open server keeps the process alive; a signal ends it.
      return await new Promise<never>(() => undefined);
    }
    await playStory(log, cleanup);
  } catch (error) {
    if (cleanup.hasStarted) return;
    view.print(`\n${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  } finally {
    await cleanup.run();
    view.close();
  }
}

async function playStory(log: StageLog, cleanup: Cleanup): Promise<void> {
  const stage = await Stage.open(log, cleanup);
  log.append({
    type: 'opened',
    nodes: stage.cluster.nodes.map(({ address }) => address),
    canFault: stage.cluster.canFault,
    workers: stage.workers.length,
    acts: STORY.map(({ title }) => title),
  });
  await playActs(stage, STORY);
  const summary = log.records.at(-1)?.event;
  if (cleanup.hasStarted) return;
  process.exitCode = summary?.type === 'summary' ? exitCodeOf(summary.rows) : 1;
}

/** An interruption ends the story, not the cleaning up. A page has no other end, so there it is no failure. */
function endOnSignals(cleanup: Cleanup, view: TerminalView, isServing: boolean): void {
  for (const [signal, exitCode] of Object.entries(EXIT_CODES)) {
    process.on(signal, () => {
      if (cleanup.hasStarted) return;
      view.print(`\n${signal}: ending everything that was started`);
      view.close();
      void cleanup.run().then(() => process.exit(isServing ? 0 : exitCode));
    });
  }
}
