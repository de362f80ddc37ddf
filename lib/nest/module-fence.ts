import { FencedUsageError } from '../core/errors.ts';
import type { FencingToken } from '../core/fencing-token.ts';

/** What the module needs of a fence: any of `nestjs-fenced-lock/fencing`, also the one of Redis. */
export interface FenceForModule {
  claim(token: FencingToken): Promise<void>;
}

/** Stands where no fence was configured; whoever uses it learns what to do. */
export class MissingFence implements FenceForModule {
  claim(): Promise<never> {
    return this.refuse();
  }

  transaction(): Promise<never> {
    return this.refuse();
  }

  advance(): Promise<never> {
    return this.refuse();
  }

  ddl(): never {
    throw this.error();
  }

  private refuse(): Promise<never> {
    return Promise.reject(this.error());
  }

  private error(): FencedUsageError {
    return new FencedUsageError(
      "There is no fence: give one to the module, for example RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }) with postgresFence of 'nestjs-fenced-lock/fencing'. Nothing was written.",
    );
  }
}
