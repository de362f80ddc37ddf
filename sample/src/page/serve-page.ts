import { setTimeout as sleep } from 'node:timers/promises';
import { LockService } from 'nestjs-fenced-lock';
import { BooksWatch } from '../sale/books-watch.ts';
import { EndlessSale } from '../sale/endless-sale.ts';
import { LockWatch } from '../sale/lock-watch.ts';
import { NodeControls } from '../sale/node-controls.ts';
import type { Cleanup } from '../stage/cleanup.ts';
import type { StageLog } from '../stage/stage-log.ts';
import { Stage } from '../stage/stage.ts';
import { openPage, probePort } from './open-page.ts';
import { PageFiles } from './page-files.ts';
import { StateStream } from './state-stream.ts';

/** Long enough to see a lock being held, and extended. */
const PAYMENT_ANSWER_MS = 1200;

/** Time that workers may take to leave by themselves at the end; the clean-up ends them then. */
const LEAVE_MS = 3000;

/**
 * Starts everything, and has it shown on a page until it is cleaned up.
 * @returns the page's address.
 * @throws Error with one clear message when something needed is missing, or the port is taken.
 */
export async function servePage(log: StageLog, cleanup: Cleanup, port: number): Promise<string> {
  await probePort(port);
  const stream = new StateStream(log);
  cleanup.adopt(() => Promise.resolve(stream.close()));
  const stage = await Stage.open(log, cleanup, { paymentAnswerMs: PAYMENT_ANSWER_MS });
  cleanup.adopt(() => leave(stage));
  log.append({
    type: 'opened',
    nodes: stage.cluster.nodes.map(({ address }) => address),
    canFault: stage.cluster.canFault,
    workers: stage.workers.length,
    acts: [],
  });

  const sale = new EndlessSale(stage);
  const files = new PageFiles(PAGE_FOLDER, OTHER_FILES);
  const nodes = new NodeControls(stage.cluster);
  const { url, application } = await openPage(port, { sale, nodes, stream, files });
  const locks = application.get(LockService);
  const lockWatch = new LockWatch(sale, log, (key) => locks.inspect(key));
  const booksWatch = new BooksWatch(stage);
  cleanup.adopt(async () => {
    stream.close();
    await Promise.all([sale.stop(), lockWatch.stop(), booksWatch.stop()]);
    await application.close();
  });
  sale.start();
  lockWatch.start();
  return url;
}

/** Seen from the compiled file: sample/dist/sample/src/page. */
const PAGE_FOLDER = new URL('../../../../page/', import.meta.url);
const ROOT = new URL('../../../../../', import.meta.url);
const INTER = '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2';

/** The page looks as the site of the documentation does. */
const OTHER_FILES = {
  'README.md': new URL('README.md', ROOT),
  'favicon.ico': new URL('docs/site/public/icon.svg', ROOT),
  'inter.woff2': new URL(import.meta.resolve(INTER)),
};

/** Workers go home: what they hold is released. Those that can't, because nodes are away, are not waited for. */
async function leave(stage: Stage): Promise<void> {
  for (const worker of stage.workers) if (worker.state === 'stopped') worker.wakeUp();
  const limit = new AbortController();
  const left = Promise.all(stage.workers.map((worker) => worker.shutDown()));
  await Promise.race([left, sleep(LEAVE_MS, undefined, { signal: limit.signal, ref: false })]);
  limit.abort();
}
