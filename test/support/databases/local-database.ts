import { chown, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../redis-servers/free-port.ts';
import { GuardedProcess } from '../redis-servers/guarded-process.ts';
import { runCommand } from '../redis-servers/run-command.ts';
import { serverDirectory } from '../redis-servers/server-directory.ts';
import type { DatabaseServer } from './database-server.ts';

/** A kind of server: how it is made and run in a directory of its own. */
export interface LocalDatabase {
  readonly name: string;
  readonly description: string;
  readonly libraryPath?: string;
  /** Runs the given commands that make the data; the directory is empty. */
  initialize(
    directory: string,
    run: (command: readonly string[], input?: string) => Promise<void>,
  ): Promise<void>;
  /** The server's command line. */
  command(directory: string, port: number): readonly string[];
  url(port: number): string;
  /** The line that it logs when it serves. Asking the port instead could reach somebody else's server. */
  readonly readyLine: RegExp;
  /** Whether it runs as root when this process does; otherwise it then runs as the user nobody, who gets its directory. */
  readonly asRoot: boolean;
  /** It is sent at the end: the server waits for its last clients, whose goodbyes may still be on their way. */
  readonly patientSignal?: NodeJS.Signals;
  /** The server ends without finishing anything. */
  readonly crashSignal: NodeJS.Signals;
  /** It is sent after that; the server then ends at once. */
  readonly stopSignal: NodeJS.Signals;
}

const NOBODY = 65_534;
const START_LIMIT_MS = 120_000;
const END_LIMIT_MS = 60_000;
const PATIENCE_MS = 3_000;

const runsAsNobody = ({ asRoot }: LocalDatabase): boolean => process.getuid?.() === 0 && !asRoot;

const asUser = (database: LocalDatabase, command: readonly string[]): readonly string[] =>
  runsAsNobody(database)
    ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', ...command]
    : command;

/** Starts a server on a free loopback port. It ends with this process, however that ends. */
export async function startLocalDatabase(database: LocalDatabase): Promise<DatabaseServer> {
  const directory = await serverDirectory(database.name);
  const environment = {
    ...process.env,
    LC_ALL: 'C',
    ...(database.libraryPath && { LD_LIBRARY_PATH: database.libraryPath }),
  };
  try {
    if (runsAsNobody(database)) await chown(directory, NOBODY, NOBODY);
    await database.initialize(directory, async (command, input) => {
      const redirect = ['/bin/sh', '-c', 'file=$1; shift; exec "$@" <"$file"', 'sh', input ?? ''];
      const user = asUser(database, command);
      const [program = '', ...args] = input === undefined ? user : [...redirect, ...user];
      await runCommand(program, args, { cwd: directory, environment });
    });
    for (let tries = 1; ; tries += 1) {
      const server = await launch(database, directory, environment);
      if (server) return server;
      if (tries === 10) throw new Error(`${database.name}: no free port in ${tries} tries`);
    }
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

async function launch(
  database: LocalDatabase,
  directory: string,
  environment: NodeJS.ProcessEnv,
): Promise<DatabaseServer | undefined> {
  const port = await freePort();
  const start = () => serving(database, directory, environment, port);
  let server = await start();
  if (!server) return undefined;
  return {
    url: database.url(port),
    description: database.description,
    async crash() {
      server!.signal(database.crashSignal);
      await server!.exited(END_LIMIT_MS);
      server!.releaseDirectory();
      const again = await start();
      if (!again) throw new Error(`${database.name}: port ${port} was taken`);
      server = again;
    },
    async stop() {
      if (database.patientSignal !== undefined) {
        server!.signal(database.patientSignal);
        await server!.exited(PATIENCE_MS);
      }
      server!.signal(database.stopSignal);
      if (!(await server!.exited(END_LIMIT_MS))) server!.signal('SIGKILL');
      await server!.exited(END_LIMIT_MS);
      await rm(directory, { recursive: true, force: true });
      server!.releaseDirectory();
    },
  };
}

/** Resolves when the server serves; undefined when somebody else has its port. */
async function serving(
  database: LocalDatabase,
  directory: string,
  environment: NodeJS.ProcessEnv,
  port: number,
): Promise<GuardedProcess | undefined> {
  const logFile = join(directory, 'server.log');
  const server = await GuardedProcess.start(
    asUser(database, database.command(directory, port)),
    directory,
    logFile,
    environment,
  );
  const deadline = performance.now() + START_LIMIT_MS;
  for (;;) {
    const isRunning = server.isRunning;
    const log = await readFile(logFile, 'utf8').catch(() => '');
    if (database.readyLine.test(log)) return server;
    if (!isRunning) {
      server.releaseDirectory();
      if (/address already in use/i.test(log)) return undefined;
      throw new Error(`${database.name} ended at its start:\n${log.slice(-2000)}`);
    }
    if (performance.now() > deadline) {
      server.signal('SIGKILL');
      throw new Error(`${database.name} on port ${port} is not ready`);
    }
    await sleep(20);
  }
}
