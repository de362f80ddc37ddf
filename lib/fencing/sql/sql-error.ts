import { ENDED, POISON_PREFIX } from './postgres-sql.ts';

/** What one of the errors says that drivers and ORMs put into each other. */
interface SqlErrorFacts {
  /** SQLSTATEs, names such as ER_LOCK_DEADLOCK or SQLITE_BUSY, and error numbers as text. */
  readonly codes: readonly string[];
  readonly messages: readonly string[];
  /** Numbers mean something else in errors of other libraries. */
  readonly isOfDatabase: boolean;
}

const CODE_FIELDS = ['code', 'errno', 'sqlState', 'sqlstate', 'errcode', 'originalCode'] as const;
const INNER_FIELDS =
  'cause driverError originalError original previous parent meta driverAdapterError'.split(' ');
const MAX_DEPTH = 8;

/** The fields of errors of pg and PGlite, of mysql2 and mariadb, and of Prisma's driver adapters. */
const DATABASE_FIELDS = ['severity', 'sqlState', 'sqlMessage', 'originalCode'] as const;

/** The names in the codes of better-sqlite3; the low byte of a number of node:sqlite is the place of one. */
const SQLITE_CODES =
  'OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB';

function sqlErrorFacts(error: unknown): readonly SqlErrorFacts[] {
  const facts: SqlErrorFacts[] = [];
  const seen = new Set<unknown>();
  const visit = (value: unknown, depth: number): void => {
    if (typeof value !== 'object' || value === null || seen.has(value) || depth > MAX_DEPTH) return;
    seen.add(value);
    const fields = value as Record<string, unknown>;
    const texts = (names: readonly string[]): string[] =>
      names.map((name) => fields[name]).filter((text) => typeof text === 'string');
    const isOfDatabase =
      texts(DATABASE_FIELDS).length > 0 || String(fields['name']).startsWith('Prisma');
    const numbers = [fields['code'], fields['errno'], fields['errcode']].filter(Number.isInteger);
    const codes = [...texts(CODE_FIELDS), ...numbers.map(String)];
    if (codes.includes('ERR_SQLITE_ERROR'))
      codes.push(`SQLITE_${SQLITE_CODES.split(' ')[Number(fields['errcode']) & 0xff]}`);
    facts.push({ codes, messages: texts(['message', 'originalMessage']), isOfDatabase });
    for (const field of INNER_FIELDS) visit(fields[field], depth + 1);
  };
  visit(error, 0);
  return facts;
}

/**
 * The database chose this transaction to be aborted, and the same work may be done again: SQLSTATE 40001 and 40P01, InnoDB's deadlock
 * 1213 and changed row 1020, and Prisma's P2034. Connection errors are not among them: the commit may have happened.
 */
const RETRYABLE = /^(40001|40P01|1213|ER_LOCK_DEADLOCK|1020|ER_CHECKREAD|P2034)$/;
/** The file is busy. There are extended codes, such as SQLITE_BUSY_SNAPSHOT. */
const BUSY = /^SQLITE_BUSY/;

/**
 * SQLSTATE classes of faults that stay until somebody mends them: values, constraints, rights, a database that can only be read. MySQL
 * has numbers of its own for read-only servers and columns without a default, SQLite has names.
 */
const LASTING =
  /^(0A|0L|0P|22|23|25(?!P03)|28|2F|3D|3F|42|44|54)[0-9A-Z]{3}$|^(1290|1364|1836)$|^SQLITE_(ERROR|PERM|READONLY|CORRUPT|CONSTRAINT|MISMATCH|AUTH|NOTADB)/;

/** Whether the database answered with a fault that does not pass by itself. */
export function isLastingError(error: unknown): boolean {
  return hasCode(sqlErrorFacts(error), LASTING);
}

/** Another connection held the SQLite file for all of the time that a transaction waited to begin. */
export class FileBusyError extends Error {}

/** Whether the whole transaction was rolled back for the sake of another one, and may run again. */
export function isRetryableSqlError(error: unknown): boolean {
  if (error instanceof FileBusyError) return false;
  const facts = sqlErrorFacts(error);
  const own = facts.filter(({ isOfDatabase }) => isOfDatabase);
  return hasCode(own, RETRYABLE) || hasCode(facts, BUSY);
}

export function isBusyFileError(error: unknown): boolean {
  return hasCode(sqlErrorFacts(error), BUSY);
}

/** Whether the statement failed only because an earlier one had aborted the transaction (PostgreSQL). */
export function isAbortedTransactionError(error: unknown): boolean {
  return hasCode(sqlErrorFacts(error), /^25P02$/);
}

/** Whether a check found another transaction than that of the advance, or none. */
export function isEndedTransactionError(error: unknown): boolean {
  const facts = sqlErrorFacts(error);
  return (
    hasCode(facts, /^(1305|ER_SP_DOES_NOT_EXIST|25P01)$/) ||
    (hasCode(facts, /^22P02$/) && hasMessage(facts, new RegExp(ENDED))) ||
    hasMessage(facts, /no such savepoint: redlock_fence/)
  );
}

/** Whether the database answered with an error, so that the statement changed nothing: not one that ends the connection. */
export function isAnswer(error: unknown): boolean {
  return hasCode(sqlErrorFacts(error), /^(?!08|57P0)(?:[0-9][0-9A-Z]|F0|HV|P0|XX)[0-9A-Z]{3}$/);
}

/** Whether the database answered that it can't have a value: a character, or an index entry that is too long. */
export function isAboutValues(error: unknown): boolean {
  return hasCode(sqlErrorFacts(error), /^(?:22|54)[0-9A-Z]{3}$/);
}

export function isMissingTableError(error: unknown): boolean {
  const facts = sqlErrorFacts(error);
  return hasCode(facts, /^(42P01|1146|ER_NO_SUCH_TABLE)$/) || hasMessage(facts, /no such table/i);
}

function hasCode(facts: readonly SqlErrorFacts[], wanted: RegExp): boolean {
  return facts.some(({ codes }) => codes.some((code) => wanted.test(code)));
}

function hasMessage(facts: readonly SqlErrorFacts[], wanted: RegExp): boolean {
  return facts.some(({ messages }) => messages.some((message) => wanted.test(message)));
}

/** The newer row that made PostgreSQL refuse. */
export type StaleFacts = readonly [key: string, token: string, holder: string];

/**
 * Reads the refusal out of the error of the poisoned statement. Empty when it is another error; more than one when parameters in
 * the message of a wrapper look like one: the database's own message comes last.
 */
export function staleFacts(error: unknown): readonly StaleFacts[] {
  const refusals = sqlErrorFacts(error).filter(({ codes }) => codes.includes('22P02'));
  const messages = refusals.flatMap((facts) => facts.messages);
  return messages.flatMap((message) => {
    const pieces = message.split(POISON_PREFIX);
    return pieces.flatMap((_piece, index) => factsAt(pieces.slice(index).join(POISON_PREFIX)));
  });
}

/** The JSON at the start of the text. It stands in quotes, so its end is the first bracket with which it parses. */
function factsAt(text: string): StaleFacts[] {
  if (!text.startsWith('[')) return [];
  for (let end = text.indexOf(']'); end >= 0; end = text.indexOf(']', end + 1)) {
    try {
      return [JSON.parse(text.slice(0, end + 1)) as StaleFacts];
    } catch {
      // The bracket that belongs to the key or the holder.
    }
  }
  return [];
}
