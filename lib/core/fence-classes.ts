/** A class as an injection token. */
type AbstractClass = abstract new (...rest: any[]) => unknown;

const REGISTRY = Symbol.for('nestjs-fenced-lock/fence-classes');

/**
 * Every copy of the `Fence` class this process has loaded, in a place all copies of the package share: the module makes the fence
 * injectable by each of them, and needs not load the fencing entry point for that.
 */
export function fenceClasses(): Set<AbstractClass> {
  const shared = globalThis as { [REGISTRY]?: Set<AbstractClass> };
  return (shared[REGISTRY] ??= new Set());
}

export function registerFenceClass(fence: AbstractClass): void {
  fenceClasses().add(fence);
}
