// A CommonJS feature whose copy of the built package is loaded after `forRoot` of the ES module one. Argument: the build.
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Test } from '@nestjs/testing';

const build = process.argv[2];
const importOf = (name) => import(pathToFileURL(join(build, 'esm', name, 'index.js')).href);
const [esm, { createMemoryNodes }] = await Promise.all(['.', 'testing'].map(importOf));
const fence = { claim: async () => undefined };
const forRoot = () =>
  esm.RedlockModule.forRoot({ nodes: createMemoryNodes(3), restartGuard: false, fence });
const early = forRoot();

const require = createRequire(import.meta.url);
const cjs = require(join(build, 'cjs/index.js'));
const cjsFencing = require(join(build, 'cjs/fencing/index.js'));

class Job {
  async run(token) {
    return token.value > 0;
  }
}
cjs.FencingToken()(Job.prototype, 'run', 0);
const descriptor = Object.getOwnPropertyDescriptor(Job.prototype, 'run');
cjs.Fenced('job')(Job.prototype, 'run', descriptor);
Object.defineProperty(Job.prototype, 'run', descriptor);

class Feature {}
const asking = (token) => Reflect.defineMetadata('design:paramtypes', [token], Feature);

async function start(redlock, ...providers) {
  const module = await Test.createTestingModule({ imports: [redlock], providers }).compile();
  await module.init();
  try {
    return providers.includes(Job) ? await module.get(Job).run() : 'started';
  } finally {
    await module.close();
  }
}
const messageOf = (error) => error.message;

const isLocked = await start(early, Job).catch(messageOf);
asking(cjs.LockService);
const service = await start(early, Feature).catch(messageOf);
const loadedFirst = await start(forRoot(), Feature).catch(messageOf);
asking(cjsFencing.Fence);
const ofFence = await start(early, Feature).catch(messageOf);
process.stdout.write(JSON.stringify({ isLocked, service, ofFence, loadedFirst }));
