import 'reflect-metadata';
import { Session } from 'node:inspector';
import { promisify } from 'node:util';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Fenced, RedlockModule } from '../../lib/index.ts';

// Counts, with V8's precise coverage, what one uncontended call under @Fenced runs through inside lib/. Prints JSON.

interface FunctionCoverage {
  readonly functionName: string;
  readonly ranges: readonly { readonly count: number; readonly startOffset: number }[];
}
interface Coverage {
  readonly result: readonly { readonly url: string; readonly functions: readonly FunctionCoverage[] }[];
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
await seats.book('12A');
const { result } = await post('Profiler.takePreciseCoverage');
session.disconnect();
await application.close();

const files = new Set<string>();
const functions: { readonly name: string; readonly calls: number }[] = [];
for (const { url, functions: covered } of result) {
  const [, path] = url.split('/lib/');
  if (path === undefined || url.includes('/node_modules/')) continue;
  for (const { functionName, ranges } of covered) {
    const [{ count, startOffset }] = ranges as [{ count: number; startOffset: number }];
    // The body of a module runs once, when it is loaded.
    if (count === 0 || (functionName === '' && startOffset === 0)) continue;
    files.add(path);
    functions.push({ name: `${path} ${functionName}`, calls: count });
  }
}
const calls = functions.reduce((sum, each) => sum + each.calls, 0);
functions.sort((a, b) => b.calls - a.calls);
console.log(JSON.stringify({ files: files.size, functions: functions.length, calls, most: functions }));
