import { AsyncLocalStorage } from 'node:async_hooks';
import { TestEnvironment } from 'jest-environment-node';

const used = new Set<AsyncLocalStorage<unknown>>();

const { prototype } = AsyncLocalStorage;
for (const name of ['run', 'enterWith']) {
  const method = Reflect.get(prototype, name) as (...args: unknown[]) => unknown;
  Reflect.set(prototype, name, function (this: AsyncLocalStorage<unknown>, ...args: unknown[]) {
    used.add(this);
    return Reflect.apply(method, this, args);
  });
}

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
