import { readOptions, refuse } from '../../test/support/command-line.ts';
import { ACTS, exitCodeOf, playActs } from './acts.ts';
import { Cleanup } from './cleanup.ts';
import { ShowLog } from './log.ts';
import { Stage } from './stage.ts';
import { printFindings, printLog } from './terminal.ts';

const USAGE = `Usage: npm start -- [--without-redis | --serve [--port <number>]]

Plays the stories of a holder that is stopped and of servers and holders that die, on real servers. Ends with what was promised
and what was seen; exit code 1 if they differ.

  --without-redis   let the database keep the locks, too: no server is needed, and none dies
  --serve           serve a page instead, on which the sale never ends
  --port <number>   the port of the page: 0 takes any free one; default: PORT, or 4600
  --help            show this text
`;

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Starts everything, has the acts played or the page served, and leaves nothing behind. */
async function conduct(port: number | undefined, withoutRedis: boolean): Promise<void> {
  const log = new ShowLog();
  const cleanup = new Cleanup();
  printLog(log, port === undefined);
  for (const [signal, exitCode] of Object.entries(EXIT_CODES)) {
    process.on(signal, () => {
      if (cleanup.hasStarted) return;
      log.close();
      console.log(`\n${signal}: ending everything that was started`);
      // A page has no other end.
      void cleanup.run().then(() => process.exit(port === undefined ? exitCode : 0));
    });
  }
  try {
    if (port !== undefined) {
      const { servePage } = await import('./page/serve-page.ts');
      console.log(`\nOpen ${await servePage(log, cleanup, port)} (Ctrl-C ends everything)\n`);
      return await new Promise<never>(() => undefined);
    }
    const stage = await Stage.open(log, cleanup, 60, withoutRedis);
    const findings = await playActs(stage, ACTS);
    if (cleanup.hasStarted) return;
    printFindings(findings);
    process.exitCode = exitCodeOf(findings);
  } catch (error) {
    if (cleanup.hasStarted) return;
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  } finally {
    await cleanup.run();
  }
}

const {
  serve,
  port,
  'without-redis': withoutRedis = false,
} = readOptions(
  {
    serve: { type: 'boolean' },
    port: { type: 'string' },
    'without-redis': { type: 'boolean' },
  },
  USAGE,
);
if (serve && withoutRedis) refuse('--serve shows Redis servers, and goes without --without-redis');
if (port !== undefined && !serve) refuse('--port goes with --serve');
const given = port ?? (process.env['PORT'] || '4600');
if (!/^\d+$/.test(given) || Number(given) > 65_535)
  refuse(`the port is a number from 0 to 65535, not '${given}'`);
await conduct(serve ? Number(given) : undefined, withoutRedis);
