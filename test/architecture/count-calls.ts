import 'reflect-metadata';
import { Session } from 'node:inspector';
import { promisify } from 'node:util';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Fenced, RedlockModule } from '../../lib/index.ts';

// Counts, with V8's precise coverage, what one uncontended call under @Fenced runs through inside lib/. Prints JSON.
// The program of call-path.spec.ts, which starts the servers and gives it their URLs. By hand, with servers that run:
// node --import ./test/support/typescript-loader.mjs test/architecture/count-calls.ts redis://… redis://… redis://…

interface FunctionCoverage {
  readonly functionName: string;
  readonly ranges: readonly { readonly count: number; readonly startOffset: number }[];
}
interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly FunctionCoverage[];
  }[];
}

class SeatService {
  async book(seat: string): Promise<string> {
    return `${seat} is booked`;
  }
}
const book = Object.getOwnPropertyDescriptor(SeatService.prototype, 'book')!;
Fenced('seat:{0}')(SeatService.prototype, 'book', book);
Object.defineProperty(SeatService.prototype, 'book', book);
Injectable()(SeatService);

class AppModule {}
Module({
  imports: [RedlockModule.forRoot({ nodes: process.argv.slice(2), restartGuard: false })],
  providers: [SeatService],
})(AppModule);

const application = await NestFactory.createApplicationContext(AppModule, { logger: false });
const seats = application.get(SeatService);
for (let warmUp = 0; warmUp < 50; warmUp += 1) await seats.book(`warm-up-${warmUp}`);
// Answers of the nodes that were not waited for belong to the calls before.
await new Promise((resolve) => setTimeout(resolve, 100));

const session = new Session();
session.connect();
const post = promisify(session.post.bind(session)) as (
  method: string,
  parameters?: object,
) => Promise<Coverage>;
await post('Profiler.enable');
await post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** Counts what one call ran through. V8 counts the initializers of fields as functions; a reader meets none. */
async function countOneCall(): Promise<{ files: number; functions: number; calls: number }> {
  await post('Profiler.takePreciseCoverage');
  await seats.book('12A');
  const { result } = await post('Profiler.takePreciseCoverage');
  const files = new Set<string>();
  let functions = 0;
  let calls = 0;
  for (const { url, functions: covered } of result) {
    if (!url.includes('/lib/') || url.includes('/node_modules/')) continue;
    for (const { functionName, ranges } of covered) {
      const { count = 0 } = ranges[0] ?? {};
      if (count === 0 || functionName.includes('initializer')) continue;
      files.add(url);
      functions += 1;
      calls += count;
    }
  }
  return { files: files.size, functions, calls };
}

// Timers of the service run between calls, too: the call with the fewest is the one without them.
const counts = [];
for (let call = 0; call < 10; call += 1) {
  counts.push(await countOneCall());
  await new Promise((resolve) => setTimeout(resolve, 20));
}
session.disconnect();
await application.close();
counts.sort((a, b) => a.calls - b.calls);
console.log(JSON.stringify(counts[0]));
