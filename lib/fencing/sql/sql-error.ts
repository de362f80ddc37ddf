import { ENDED, POISON_PREFIX } from './postgres-sql.ts';

/** What can be learnt from an error of any driver or ORM: they wrap the database's own error in different ways. */
interface SqlErrorFacts {
  /** SQLSTATEs, names such as ER_LOCK_DEADLOCK or SQLITE_BUSY, and error numbers as text. */
  readonly codes: ReadonlySet<string>;
  readonly messages: readonly string[];
}

const CODE_FIELDS = ['code', 'errno', 'sqlState', 'sqlstate', 'errcode', 'originalCode'] as const;
const INNER_FIELDS = [
  'cause',
  'driverError',
  'originalError',
  'original',
  'previous',
  'parent',
  'meta',
  'driverAdapterError',
] as const;
const MAX_DEPTH = 8;

function sqlErrorFacts(error: unknown): SqlErrorFacts {
  const codes = new Set<string>();
  const messages: string[] = [];
  const seen = new Set<unknown>();
  const visit = (value: unknown, depth: number): void => {
    if (typeof value !== 'object' || value === null || seen.has(value) || depth > MAX_DEPTH) return;
    seen.add(value);
    const fields = value as Record<string, unknown>;
    for (const field of CODE_FIELDS) {
      const code = fields[field];
      if (typeof code === 'string' || typeof code === 'number') codes.add(String(code));
    }
    for (const message of [fields['message'], fields['originalMessage']])
      if (typeof message === 'string') messages.push(message);
    for (const field of INNER_FIELDS) visit(fields[field], depth + 1);
  };
  visit(error, 0);
  return { codes, messages };
}

/**
 * SQLSTATE 40001 and 40P01, InnoDB's deadlock 1213 and changed row 1020, Prisma's P2034, SQLite busy: the database chose this transaction to be
 * aborted, and the same work may be done again. Connection errors are not among them: the commit may have happened.
 */
const RETRYABLE = [
  '40001',
  '40P01',
  '1213',
  'ER_LOCK_DEADLOCK',
  '1020',
  'ER_CHECKREAD',
  'P2034',
] as const;
const MISSING_TABLE = ['42P01', '1146', 'ER_NO_SUCH_TABLE'] as const;

/** Whether the whole transaction was rolled back for the sake of another one, and may run again. */
export function isRetryableSqlError(error: unknown): boolean {
  const facts = sqlErrorFacts(error);
  return hasCode(facts, RETRYABLE) || isBusyError(facts);
}

/** SQLITE_BUSY and its extended codes: names in better-sqlite3, numbers that end with its byte in node:sqlite. */
function isBusyError({ codes }: SqlErrorFacts): boolean {
  const isNodeSqlite = codes.has('ERR_SQLITE_ERROR');
  return [...codes].some(
    (code) => code.startsWith('SQLITE_BUSY') || (isNodeSqlite && (Number(code) & 0xff) === 5),
  );
}

/** Whether the statement failed only because an earlier one had aborted the transaction (PostgreSQL). */
export function isAbortedTransactionError(error: unknown): boolean {
  return hasCode(sqlErrorFacts(error), ['25P02']);
}

/** Whether the check of the mark found another transaction than the one it was set in, or none. */
export function isEndedTransactionError(error: unknown): boolean {
  const facts = sqlErrorFacts(error);
  const says = (text: string): boolean => facts.messages.some((message) => message.includes(text));
  return (
    hasCode(facts, ['1305', 'ER_SP_DOES_NOT_EXIST']) ||
    (hasCode(facts, ['22P02']) && says(ENDED)) ||
    says('no such savepoint')
  );
}

/** Whether a statement of the fence found no fence table. */
export function isMissingTableError(error: unknown): boolean {
  const facts = sqlErrorFacts(error);
  return (
    hasCode(facts, MISSING_TABLE) ||
    facts.messages.some((message) => /no such table/i.test(message))
  );
}

/** Whether the database could not read the statement. */
export function isSyntaxError(error: unknown): boolean {
  const facts = sqlErrorFacts(error);
  return (
    hasCode(facts, ['42601', '1064', 'ER_PARSE_ERROR']) ||
    facts.messages.some((message) => message.endsWith(': syntax error'))
  );
}

function hasCode({ codes }: SqlErrorFacts, wanted: readonly string[]): boolean {
  return wanted.some((code) => codes.has(code));
}

/** The newer row that made PostgreSQL refuse. */
export interface StaleFacts {
  readonly key: string;
  readonly token: string;
  readonly holder: string;
}

/**
 * Reads the refusal out of the error of the poisoned statement. Empty when it is another error; more than one when a key looks
 * like a refusal itself, or a wrapper repeats the parameters.
 */
export function staleFactsOf(error: unknown): readonly StaleFacts[] {
  return sqlErrorFacts(error).messages.flatMap((message) => {
    const pieces = message.split(POISON_PREFIX);
    return pieces.flatMap((_piece, index) => factsAt(pieces.slice(index).join(POISON_PREFIX)));
  });
}

/** The JSON at the start of the text. It stands in quotes, so its end is the first bracket with which it parses. */
function factsAt(text: string): StaleFacts[] {
  if (!text.startsWith('[')) return [];
  for (let end = text.indexOf(']'); end >= 0; end = text.indexOf(']', end + 1)) {
    try {
      const [key, token, holder] = JSON.parse(text.slice(0, end + 1)) as [string, string, string];
      return [{ key, token, holder }];
    } catch {
      // This bracket belongs to the key or the holder.
    }
  }
  return [];
}
