export { ACQUIRE } from './acquire.ts';
export { EXTEND } from './extend.ts';
export { INSPECT } from './inspect.ts';
export { JOIN } from './join.ts';
export { PROBE } from './probe.ts';
export { RELEASE } from './release.ts';
export type { Script } from './script.ts';
