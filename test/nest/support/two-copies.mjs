// An ES module application with a CommonJS feature: both copies of the built package in one process. Argument: the build.
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Test } from '@nestjs/testing';

const build = process.argv[2];
const esm = await import(pathToFileURL(join(build, 'esm/index.js')).href);
const { createMemoryNodes } = await import(pathToFileURL(join(build, 'esm/testing/index.js')).href);
const cjs = createRequire(import.meta.url)(join(build, 'cjs/index.js'));

class Feature {
  constructor(locks) {
    this.locks = locks;
  }
  async run(token) {
    return { keys: this.locks.current().keys, isRealToken: token.value > 0 };
  }
}
Reflect.defineMetadata('design:paramtypes', [cjs.LockService], Feature);
cjs.FencingToken()(Feature.prototype, 'run', 0);
const descriptor = Object.getOwnPropertyDescriptor(Feature.prototype, 'run');
cjs.Fenced('feature')(Feature.prototype, 'run', descriptor);
Object.defineProperty(Feature.prototype, 'run', descriptor);

const module = await Test.createTestingModule({
  imports: [esm.RedlockModule.forRoot({ nodes: createMemoryNodes(3), restartGuard: false })],
  providers: [Feature],
}).compile();
await module.init();
const outcome = {
  isTwoCopies: esm.LockService !== cjs.LockService,
  isOneService: module.get(cjs.LockService) === module.get(esm.LockService),
  call: await module.get(Feature).run('forged'),
  isErrorRecognised: esm.isRedlockError(new cjs.FencedUsageError('from the other copy')),
};
await module.close();
process.stdout.write(JSON.stringify(outcome));
