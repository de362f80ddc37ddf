import Database from 'better-sqlite3';
import { isStaleTokenError, sqliteFence, type FenceToken } from '../../../lib/fencing/index.ts';
import type { ResourceRequest } from './resource-client.ts';

/** Outcome of one access. */
export interface AccessResult {
  readonly accepted: boolean;
  readonly value: number;
}

/** Numbers under keys, twice: behind the fence which the package ships for SQLite, and without any. */
export class Records {
  readonly #database = new Database(':memory:');
  readonly #fence = sqliteFence(this.#database);

  constructor() {
    this.#database.exec(this.#fence.ddl());
    this.#database.exec(
      'CREATE TABLE records (view TEXT, key TEXT, value INTEGER NOT NULL, PRIMARY KEY (view, key))',
    );
  }

  /** `done` is called at the moment of the access, so in the order of accesses. */
  async access(
    request: ResourceRequest,
    token: FenceToken,
    done: (result: AccessResult) => void,
  ): Promise<void> {
    if (request.view === 'unfenced') return done(this.#perform(request));
    try {
      await this.#fence.transaction(token, () => done(this.#perform(request)));
    } catch (error) {
      if (!isStaleTokenError(error)) throw error;
      done({ accepted: false, value: request.value });
    }
  }

  #perform({ view, operation, key, value }: ResourceRequest): AccessResult {
    if (operation === 'write') {
      this.#database.prepare('REPLACE INTO records VALUES (?, ?, ?)').run(view, key, value);
      return { accepted: true, value };
    }
    const row = this.#database
      .prepare<[string, string], { value: number }>(
        'SELECT value FROM records WHERE view = ? AND key = ?',
      )
      .get(view, key);
    return { accepted: true, value: row?.value ?? 0 };
  }
}
