import { FencedUsageError } from '../core/errors.ts';
import { FIRST_TIME } from '../fencing/fence-claim.ts';
import type { Fence, FenceToken } from '../fencing/fence.ts';
import { FencedTable } from '../fencing/sql/fenced-table.ts';
import type { SqlDialect } from '../fencing/sql/sql-executor.ts';

/** A run of a job, as the ledger has it. */
export interface RunRecord {
  /** The name of the job. */
  readonly name: string;
  /** The instant that the expression names, whenever the run began. */
  readonly scheduled: Date;
  /** By the clock of the host that ran it, as `ended`. */
  readonly started: Date;
  /** Undefined while it runs; of a run that died, when that was noticed. */
  readonly ended: Date | undefined;
  /** `died`: its process ended, or lost the lock. `skipped`: it was not run, and will not be. */
  readonly outcome: 'done' | 'failed' | 'died' | 'skipped' | undefined;
  /** How often it was begun. */
  readonly attempt: number;
  /** The value of the fencing token. */
  readonly token: number;
  /** The holder of the lock. */
  readonly holder: string;
}

/** The run that a call is about. */
export type RunId = Pick<RunRecord, 'name' | 'scheduled'>;

/** What decides whether a run may begin, besides the ledger. */
export interface RunRules {
  /** This process was not there at its time. Nobody was, if the ledger does not know the job. */
  readonly isBeforeStart?: boolean;
  /** It may not begin any more. */
  readonly isTooOld?: boolean;
  /** A run that died may begin again. */
  readonly isRepeated?: boolean;
}

/** A run that kills its process must not kill one after the other. */
const MOST_ATTEMPTS = 3;
const KEPT_MS = 90 * 86_400_000;

/** Times are texts in ISO 8601: they sort as they are, and every driver returns them as they are. */
const ddl = (table: string, dialect: SqlDialect): string => {
  const [name, bytes, end] = {
    postgresql: ['text COLLATE "C"', ' COLLATE "C"', ''],
    mysql: ['VARBINARY(2500)', ' CHARACTER SET ascii', ' ENGINE = InnoDB ROW_FORMAT = DYNAMIC'],
    sqlite: ['TEXT', '', ''],
  }[dialect] as [string, string, string];
  return `CREATE TABLE IF NOT EXISTS ${table} (
  name ${name} NOT NULL,
  scheduled VARCHAR(24)${bytes} NOT NULL,
  started VARCHAR(24) NOT NULL,
  ended VARCHAR(24),
  outcome VARCHAR(8),
  attempt INTEGER NOT NULL,
  token BIGINT NOT NULL,
  holder VARCHAR(255) NOT NULL,
  PRIMARY KEY (name, scheduled)
)${end};`;
};

/**
 * What becomes of a run: it begins, or is skipped for good. `died`: it has died, may not begin again, and nobody has said so yet. `new`:
 * the ledger does not know the job, so no run was missed. `over`: nothing more becomes of it.
 */
type Course = 'begins' | 'skipped' | 'died' | 'new' | 'over';

/** A run, what the ledger had of it, and the time of the one before it. */
interface KnownRuns {
  readonly id: RunId;
  readonly own: RunRecord | undefined;
  readonly previous: Date | undefined;
}

const isSettled = ({ outcome, attempt }: Pick<RunRecord, 'outcome' | 'attempt'>): boolean =>
  outcome !== undefined && (outcome !== 'died' || attempt >= MOST_ATTEMPTS);

/** The runs of all jobs: a table beside that of a fence, which is written in the transactions of that fence. */
export class RunLedger {
  readonly ddl: string;
  readonly #table: FencedTable;
  readonly #fence: Fence;

  /** @param user what needs it, for messages @throws RedlockConfigError when it is no fence in an SQL database */
  constructor(user: string, fence: Pick<Fence, 'claim'> | undefined) {
    this.#table = new FencedTable(user, fence, 'redlock_run', ddl);
    this.#fence = fence as Fence;
    this.ddl = this.#table.ddl;
  }

  /** The runs up to the time `latest`, the newest first. */
  async list(
    name: string,
    limit: number,
    latest = new Date(Date.UTC(9999, 11)),
    transaction?: unknown,
  ): Promise<RunRecord[]> {
    const select = `SELECT scheduled, started, ended, outcome, attempt, token, holder FROM ${this.#table.name}
WHERE name = $1 AND scheduled <= $2 ORDER BY scheduled DESC LIMIT ${limit}`;
    const rows = await this.#run(transaction, select, name, latest);
    return rows.map(({ scheduled, started, ended, outcome, attempt, token, holder }: any) => ({
      name,
      scheduled: new Date(scheduled),
      started: new Date(started),
      ended: ended === null ? undefined : new Date(ended),
      outcome: outcome ?? undefined,
      attempt: Number(attempt),
      token: Number(token),
      holder,
    }));
  }

  /** The time of the first run that it has. */
  async first(name: string, transaction?: unknown): Promise<Date | undefined> {
    const select = `SELECT MIN(scheduled) AS earliest FROM ${this.#table.name} WHERE name = $1`;
    const [row] = await this.#run(transaction, select, name);
    const time = row?.['earliest'] as string | null | undefined;
    return time ? new Date(time) : undefined;
  }

  /** Whether a later run has begun at a time of its expression, and not by hand: those are on the second. */
  async #hasLater({ name, scheduled }: RunId, transaction: unknown): Promise<boolean> {
    const select = `SELECT scheduled FROM ${this.#table.name}
WHERE name = $1 AND scheduled > $2 AND scheduled LIKE '%.000Z' ORDER BY scheduled LIMIT 1`;
    return (await this.#run(transaction, select, name, scheduled)).length > 0;
  }

  /** Whether nothing more will become of it. */
  async isSettled({ name, scheduled }: RunId): Promise<boolean> {
    const [latest] = await this.list(name, 1, scheduled);
    return Number(latest?.scheduled) === Number(scheduled) && isSettled(latest!);
  }

  /**
   * Writes that a run begins, if it may. The caller holds the lock of the job, so whatever has no end has died.
   *
   * @returns the number of the attempt, 0 where it may not begin, and the time of the run before it; nothing where no run was missed either
   */
  begin(id: RunId, token: FenceToken, rules: RunRules) {
    const { name, scheduled } = id;
    return this.#fence.transaction(token, async (transaction) => {
      const now = new Date();
      const known = await this.list(name, 2, scheduled, transaction);
      const died = `UPDATE ${this.#table.name} SET ended = $2, outcome = 'died' WHERE name = $1 AND ended IS NULL`;
      await this.#change(transaction, died, name, now);
      const own = Number(known[0]?.scheduled) === Number(scheduled) ? known.shift() : undefined;
      const previous = known[0]?.scheduled;
      const course = await this.#courseOf({ id, own, previous }, rules, transaction);
      const attempt = course === 'begins' ? (own?.attempt ?? 0) + 1 : 0;
      if (course === 'begins' || course === 'skipped' || course === 'new')
        await this.#write(id, attempt, token, now, transaction);
      return course === 'over' || course === 'new' ? undefined : { attempt, previous };
    });
  }

  async #courseOf(
    { id, own, previous }: KnownRuns,
    { isBeforeStart, isTooOld, isRepeated }: RunRules,
    transaction: unknown,
  ): Promise<Course> {
    if (own) {
      const { outcome = 'died', attempt } = own;
      if (isRepeated && !isTooOld && !isSettled({ outcome, attempt })) return 'begins';
      return own.outcome ? 'over' : 'died';
    }
    if (isBeforeStart) {
      // Runs begin in their order, so it was no time of the job when a later one began: the expression has changed since.
      if (await this.#hasLater(id, transaction)) return 'over';
      if (!previous) return (await this.first(id.name, transaction)) ? 'over' : 'new';
    }
    return isTooOld ? 'skipped' : 'begins';
  }

  /** Writes a run that begins, or one that is skipped (`attempt` is 0 then), and deletes the rows that are too old. */
  async #write(
    { name, scheduled }: RunId,
    attempt: number,
    token: FenceToken,
    now: Date,
    transaction: unknown,
  ): Promise<void> {
    const table = this.#table.name;
    const old = `DELETE FROM ${table} WHERE name = $1 AND (scheduled = $2 OR scheduled < $3)`;
    // The clock of this host may be ahead by years. A token that is a time is not.
    const tokenMs =
      Number(token.value) < Number(FIRST_TIME) ? Infinity : Number(token.value) / 1_000;
    const oldest = new Date(Math.min(scheduled.getTime(), tokenMs) - KEPT_MS);
    await this.#change(transaction, old, name, scheduled, oldest);
    const end = attempt === 0 ? "$3, 'skipped'" : 'NULL, NULL';
    const row = `INSERT INTO ${table} (name, scheduled, started, ended, outcome, attempt, token, holder)
VALUES ($1, $2, $3, ${end}, ${attempt}, ${BigInt(token.value)}, $4)`;
    await this.#change(transaction, row, name, scheduled, now, token.holder);
  }

  /**
   * Commits `work`, and with it the end of a run that has none. Without work it may be called again, where the answer was lost.
   *
   * @throws StaleTokenError when the job has run again since; nothing was written
   * @throws FencedUsageError when the run has ended; nothing was written
   */
  end<Result>(
    { name, scheduled }: RunId,
    token: FenceToken,
    outcome: 'done' | 'failed',
    work?: (transaction: any) => Promise<Result> | Result,
  ): Promise<Result | undefined> {
    const sql = `UPDATE ${this.#table.name} SET ended = $3, outcome = $4 WHERE name = $1 AND scheduled = $2 AND ended IS NULL`;
    return this.#fence.transaction(token, async (transaction) => {
      const [own] = await this.list(name, 1, scheduled, transaction);
      if (!work && own?.ended && own.holder === token.holder) return undefined;
      if (Number(own?.scheduled) !== Number(scheduled) || own?.ended)
        throw new FencedUsageError(
          `The run of '${name}' has ended already (${own?.outcome}), so nothing was written. Call run.commit once, and await it: it ends the run.`,
        );
      const result = await work?.(transaction);
      if (work) await this.#table.checkOpen(transaction);
      await this.#change(transaction, sql, name, scheduled, new Date(), outcome);
      return result;
    });
  }

  #run(transaction: unknown, sql: string, ...values: (string | Date)[]) {
    const { text, parameters } = this.#sent(sql, values);
    if (transaction === undefined) return this.#table.alone(text, parameters);
    return this.#table.within(transaction, text, parameters);
  }

  #change(transaction: unknown, sql: string, ...values: (string | Date)[]): Promise<void> {
    const { text, parameters } = this.#sent(sql, values);
    return this.#table.change(transaction, text, parameters);
  }

  #sent(sql: string, values: readonly (string | Date)[]) {
    const table = this.#table;
    const text = sql.replaceAll(/\$\d/g, (placeholder) => table.text(placeholder));
    const parameters = values.map((value) =>
      table.encoded(typeof value === 'string' ? value : value.toISOString()),
    );
    return { text, parameters };
  }
}
