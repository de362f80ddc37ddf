/** A class of which an application needs one, whichever copy of this package it was imported from. */
type SharedClass = abstract new (...args: never[]) => object;

const REGISTRY = Symbol.for('nestjs-fenced-lock/package-copies');
const shared = globalThis as { [REGISTRY]?: Map<string, WeakRef<SharedClass>[]> };
/** Weak, because a bundle that is evaluated again (hot reload) registers new classes, and the old ones must be able to go. */
const registry: Map<string, WeakRef<SharedClass>[]> = (shared[REGISTRY] ??= new Map());

/** Remembers this copy of the class `name`. */
export function registerCopy(name: 'LockService' | 'Fence', copy: SharedClass): void {
  registry.set(
    name,
    [...copiesOf(name), copy].map((each) => new WeakRef(each)),
  );
}

/**
 * Every copy of the class that is loaded in this process: an ES module application with a CommonJS feature module loads two, and
 * both must mean the same service.
 */
export function copiesOf(name: 'LockService' | 'Fence'): SharedClass[] {
  const copies = registry.get(name) ?? [];
  return copies.map((each) => each.deref()).filter((copy) => copy !== undefined);
}
