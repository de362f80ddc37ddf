/** A database server for tests. */
export interface DatabaseServer {
  /** Of the administrator, for the database the server came with. */
  readonly url: string;
  /** One line for people: which way serves. */
  readonly description: string;
  /** Ends what was started here. Never rejects for a server that has ended before. */
  stop(): Promise<void>;
}

/** One way to get a server, for the message that lists them. */
export interface DatabaseWay {
  readonly hint: string;
  /** Resolves with a running server, or with the reason why this way does not work here. */
  start(): Promise<DatabaseServer | string>;
}

/**
 * The first way that works; never a skip.
 * @throws {Error} that lists the ways and why each one failed
 */
export async function startFirst(
  name: string,
  ways: readonly DatabaseWay[],
): Promise<DatabaseServer> {
  const reasons: string[] = [];
  for (const way of ways) {
    const server = await way.start().catch((error: unknown) => String(error));
    if (typeof server !== 'string') return server;
    reasons.push(`  ${way.hint}\n    (${server})`);
  }
  throw new Error(
    `${name} is needed and was not found. Make one of these work:\n${reasons.join('\n')}`,
  );
}
