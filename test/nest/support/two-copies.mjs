// An ES module application with a CommonJS feature: both copies of the built package in one process. Argument: the build.
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Test } from '@nestjs/testing';

const build = process.argv[2];
const esm = await import(pathToFileURL(join(build, 'esm/index.js')).href);
const { createMemoryNodes } = await import(pathToFileURL(join(build, 'esm/testing/index.js')).href);
const esmFencing = await import(pathToFileURL(join(build, 'esm/fencing/index.js')).href);
const require = createRequire(import.meta.url);
const cjs = require(join(build, 'cjs/index.js'));
const cjsFencing = require(join(build, 'cjs/fencing/index.js'));

const claimed = [];
const fence = { claim: async (token) => void claimed.push(token.value) };

class Feature {
  constructor(locks, fence) {
    this.locks = locks;
    this.fence = fence;
  }
  async run(token) {
    const { keys } = this.locks.current();
    return { keys, isRealToken: token.value > 0, isClaimed: claimed.includes(token.value) };
  }
}
Reflect.defineMetadata('design:paramtypes', [cjs.LockService, cjsFencing.Fence], Feature);
cjs.FencingToken()(Feature.prototype, 'run', 0);
const descriptor = Object.getOwnPropertyDescriptor(Feature.prototype, 'run');
cjs.Fenced('feature', { claim: true })(Feature.prototype, 'run', descriptor);
Object.defineProperty(Feature.prototype, 'run', descriptor);

const module = await Test.createTestingModule({
  imports: [esm.RedlockModule.forRoot({ nodes: createMemoryNodes(3), restartGuard: false, fence })],
  providers: [Feature],
}).compile();
await module.init();
const outcome = {
  isTwoCopies: esm.LockService !== cjs.LockService,
  isOneService: module.get(cjs.LockService) === module.get(esm.LockService),
  isOneFence:
    cjsFencing.Fence !== esmFencing.Fence &&
    module.get(Feature).fence === fence &&
    module.get(esmFencing.Fence) === fence,
  call: await module.get(Feature).run('forged'),
  isErrorRecognised: esm.isRedlockError(new cjs.FencedUsageError('from the other copy')),
};
await module.close();
process.stdout.write(JSON.stringify(outcome));
