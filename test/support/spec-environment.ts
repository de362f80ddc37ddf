import { AsyncLocalStorage } from 'node:async_hooks';
import { TestEnvironment } from 'jest-environment-node';

const used = new Set<AsyncLocalStorage<unknown>>();

const { run, enterWith } = AsyncLocalStorage.prototype;
Object.assign(AsyncLocalStorage.prototype, {
  run(this: AsyncLocalStorage<unknown>, ...args: Parameters<typeof run>) {
    used.add(this);
    return run.apply(this, args);
  },
  enterWith(this: AsyncLocalStorage<unknown>, store: unknown) {
    used.add(this);
    enterWith.call(this, store);
  },
});

/**
 * Jest's environment for Node, which also ends what a spec leaves behind in its worker: until Node 24 every promise of a
 * process carries the store of each `AsyncLocalStorage` that is enabled. Those of ended specs doubled the CPU of later ones.
 */
export default class SpecEnvironment extends TestEnvironment {
  override async teardown(): Promise<void> {
    for (const storage of used) storage.disable();
    used.clear();
    await super.teardown();
  }
}
