/** A class that stands for the application's fence where constructors ask for it. */
export type FenceClass = abstract new (...args: never[]) => object;

const REGISTRY = Symbol.for('nestjs-fenced-lock/fence-classes');

/**
 * Every copy of the `Fence` class that this process has loaded, in a place all copies of the package share: an ES module
 * application with a CommonJS feature module loads two, and both ask for the same fence.
 */
export function fenceClasses(): ReadonlySet<FenceClass> {
  return registry();
}

export function registerFenceClass(fence: FenceClass): void {
  registry().add(fence);
}

function registry(): Set<FenceClass> {
  const shared = globalThis as { [REGISTRY]?: Set<FenceClass> };
  return (shared[REGISTRY] ??= new Set());
}
