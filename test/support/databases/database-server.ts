/** A database server for tests. */
export interface DatabaseServer {
  /** URL of the administrator, for the database the server came with. */
  readonly url: string;
  /** A line for people: which way serves. */
  readonly description: string;
  /** Ends it without warning and starts it again, on the same port with what it had written. Where it is a process of this machine. */
  crash?(): Promise<void>;
  /** Starts another one that follows it, until it is promoted. Where it is a PostgreSQL of this machine. */
  standby?(): Promise<DatabaseServer>;
  /** Ends what was started here. Never rejects for a server that has ended before. */
  stop(): Promise<void>;
}

/** Resolves with a running server, or with the reason why this way does not work here. */
export type DatabaseWay = () => Promise<DatabaseServer | string>;

/** The ways to get one kind of server, in the order in which they are tried. */
export interface DatabaseWays {
  /** The environment variable that names a running server, and what its URL looks like. */
  readonly given: { readonly variable: string; readonly form: string };
  /** The software to install. */
  readonly install: string;
  readonly installed: DatabaseWay;
  readonly container: DatabaseWay;
  readonly unpacked: DatabaseWay;
}

/**
 * The first way that works; never a skip.
 * @throws {Error} that lists the ways and why each one failed
 */
export async function startFirst(name: string, ways: DatabaseWays): Promise<DatabaseServer> {
  const { variable, form } = ways.given;
  const hinted: readonly (readonly [hint: string, start: DatabaseWay])[] = [
    [`name a running server: ${variable}=${form}`, () => given(name, variable)],
    [`install ${ways.install}`, ways.installed],
    ['start Docker, or another container runtime that testcontainers knows', ways.container],
    ['on Debian, let apt-get reach its package source: no root is needed', ways.unpacked],
  ];
  const reasons: string[] = [];
  for (const [hint, start] of hinted) {
    const server = await start().catch((error: unknown) => String(error));
    if (typeof server !== 'string') return server;
    reasons.push(`  ${hint}\n    (${server})`);
  }
  throw new Error(
    `${name} is needed and was not found. Make one of these work:\n${reasons.join('\n')}`,
  );
}

async function given(name: string, variable: string): Promise<DatabaseServer | string> {
  const url = process.env[variable];
  if (!url) return `${variable} is not set`;
  return { url, description: `${name} at ${variable}`, stop: () => Promise.resolve() };
}
