import Database from 'better-sqlite3';
import { isStaleTokenError, sqliteFence, type FenceToken } from '../../../lib/fencing/index.ts';
import type { Access, ResourceReply } from './resource-client.ts';

/** The outcome of one access. */
type AccessResult = Omit<ResourceReply, 'id'>;

/** Numbers under keys, twice: behind the fence which the package ships for SQLite, and without any. */
export class Records {
  readonly #database = new Database(':memory:');
  readonly #fence = sqliteFence(this.#database);
  readonly #values = new Map<string, number>();

  constructor() {
    this.#database.exec(this.#fence.ddl());
  }

  /** `done` is called at the moment of the access, so in the order of accesses. */
  async access(
    access: Access,
    token: FenceToken,
    done: (result: AccessResult) => void,
  ): Promise<void> {
    if (access.view === 'unfenced') return done(this.#perform(access));
    try {
      await this.#fence.transaction(token, () => done(this.#perform(access)));
    } catch (error) {
      if (!isStaleTokenError(error)) throw error;
      done({ accepted: false, value: access.value });
    }
  }

  #perform({ view, operation, key, value }: Access): AccessResult {
    const name = `${view} ${key}`;
    if (operation === 'write') this.#values.set(name, value);
    return { accepted: true, value: this.#values.get(name) ?? 0 };
  }
}
