import type { RedlockErrorCode } from '../../../lib/core/errors.ts';
import type { RedlockOptions } from '../../../lib/core/options/options.ts';
import { Program } from '../../support/program.ts';

const END_LIMIT_MS = 20_000;

export interface LockQuestion {
  readonly action: 'acquire' | 'extend' | 'release';
  readonly key: string;
  readonly waitMs: number;
}

export interface LockAnswer {
  /** `raw error`: an error without a code of this package. */
  readonly outcome: 'done' | RedlockErrorCode | 'raw error';
  readonly token?: number;
  readonly message?: string;
}

/** A process that uses locks as an application does: a rejection that nobody handles ends it with an error. */
export class LockClient {
  private constructor(private readonly program: Program<LockQuestion>) {}

  /** Resolves when a quorum has been joined. */
  static async start(urls: readonly string[], options: RedlockOptions): Promise<LockClient> {
    const script = 'test/campaign/servers/lock-client-process.ts';
    const program = new Program<LockQuestion>(script, { urls, options });
    if (await program.first<boolean>()) return new LockClient(program);
    await program.kill();
    throw new Error('a process that uses locks did not reach a quorum');
  }

  /** One try, or tries for `waitMs`. Never rejects. */
  acquire(key: string, waitMs = 0): Promise<LockAnswer> {
    return this.#ask({ action: 'acquire', key, waitMs });
  }

  extend(key: string): Promise<LockAnswer> {
    return this.#ask({ action: 'extend', key, waitMs: 0 });
  }

  release(key: string): Promise<LockAnswer> {
    return this.#ask({ action: 'release', key, waitMs: 0 });
  }

  /** Lets it close its locks and end by itself. Resolves with what went wrong in its life: an empty text when nothing did. */
  async finish(): Promise<string> {
    const { program } = this;
    await program.finish(END_LIMIT_MS);
    return program.child.exitCode === 0 ? program.output : program.end!.message;
  }

  #ask(question: LockQuestion): Promise<LockAnswer> {
    return this.program
      .ask<LockAnswer>(question)
      .catch(({ message }: Error) => ({ outcome: 'raw error', message }));
  }
}
