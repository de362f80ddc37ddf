import { Cleanup } from './stage/cleanup.ts';
import { playActs } from './stage/play-acts.ts';
import { STORY } from './stage/story.ts';
import { StageLog } from './stage/stage-log.ts';
import { Stage } from './stage/stage.ts';
import { exitCodeOf } from './stage/summary.ts';
import { TerminalView } from './view/terminal-view.ts';

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** The conductor: starts everything, has the story played, and leaves nothing behind. */
async function main(): Promise<void> {
  const log = new StageLog();
  const cleanup = new Cleanup();
  const view = new TerminalView(log, process.stdout);
  endOnSignals(cleanup, view);
  try {
    const stage = await Stage.open(log, cleanup);
    log.append({
      type: 'opened',
      nodes: stage.cluster.nodes.map(({ address }) => address),
      workers: stage.workers.length,
      acts: STORY.map(({ title }) => title),
    });
    await playActs(stage, STORY);
    const summary = log.records.at(-1)?.event;
    if (cleanup.hasStarted) return;
    process.exitCode = summary?.type === 'summary' ? exitCodeOf(summary.rows) : 1;
  } catch (error) {
    if (cleanup.hasStarted) return;
    view.print(`\n${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  } finally {
    await cleanup.run();
    view.close();
  }
}

/** An interruption ends the story, not the cleaning up. */
function endOnSignals(cleanup: Cleanup, view: TerminalView): void {
  for (const [signal, exitCode] of Object.entries(EXIT_CODES)) {
    process.on(signal, () => {
      if (cleanup.hasStarted) return;
      view.print(`\n${signal}: ending everything that was started`);
      view.close();
      void cleanup.run().then(() => process.exit(exitCode));
    });
  }
}

void main();
