import { blocksOf, fileNameOf, fragmentNameOf, readPage, type Block } from './pages.ts';

/** Lines that an example in a docstring leaves to its reader, when it has no imports: an editor adds those of the package. */
const IMPORTS = `
import { ConflictException, Controller, Get, Inject, Injectable, Logger, Module, Param, Post, Put, UseFilters, Body } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { HealthCheck } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import type { Job } from 'bullmq';
import { Redis } from 'ioredis';
import { Pool, type PoolClient } from 'pg';
import { Transactional, TransactionHost } from '@nestjs-cls/transactional';
import {
  Fenced, FencingToken, FencingTokenHeader, LockService, RedlockModule, LockExceptionFilter, LockSignal, lockSignal, fencingToken, ClientSignal, REDLOCK_NODES, fencingTokenHeader, inClsTransaction,
  isRedlockError, parseFencingTokenHeader, RedlockError, type ReceivedFencingToken, REDLOCK_DEFAULTS, FENCING_TOKEN_HEADER,
  type Lock, type LockEvent, type RedlockModuleOptions, type RedlockOptionsFactory, type TokenSource, type TokenRequest,
} from 'nestjs-fenced-lock';
import {
  dynamodbFence, Fence, isStaleTokenError, postgresFence, postgresTokenSource, redisFence, sqliteFence, type RedisFence,
} from 'nestjs-fenced-lock/fencing';
import { createLocks } from 'nestjs-fenced-lock/core';
import { FencedJob, jobToken, leaseToken, revisionToken, type KubernetesLease } from 'nestjs-fenced-lock/jobs';
import { isLeader, Leader, type Candidate } from 'nestjs-fenced-lock/leader';
import { Idempotent, Once, OnceService, OnceTransaction, onceDdl, onceTransaction } from 'nestjs-fenced-lock/once';
import { CronRuns, FencedCron, fencedRunCoordinator, type CronRun } from 'nestjs-fenced-lock/schedule';
import { openTelemetry } from 'nestjs-fenced-lock/telemetry';
import { assertFenceConformance, createFencingToken, createMemoryNodes, occupy, fenceConformance, MemoryLockNode, MemoryLockServer, type FenceStore } from 'nestjs-fenced-lock/testing';
declare const nodes: MemoryLockNode[];
declare const store: FenceStore;
`;

/** The objects that every application has, which surroundings.ts makes. */
const OBJECTS =
  'app codeOfOthers database dataSource expect fence knex kysely locks logger metrics nodes orm payment payments pool prisma redis refusals RefundService Seat seats Surroundings token work';

const DECLARED = `
declare const error: unknown;
`;

/** Declarations that an example in a docstring may leave out although it has imports. */
export const GIVEN_TO_EXAMPLES = `
declare const token: import('nestjs-fenced-lock').FencingToken;
declare const pool: import('pg').Pool;
`;

const IMPORT = /^import (?:type )?\{([^}]+)\} from '([^']+)';\n/gm;
const MEMBERS = /^(?:@\w+\((?!\s*\{\s*imports)|constructor\(|async \w+\()/;
const PROPERTIES = /^\w+: /;

/** Code without the first line, which names the file, and the imports. */
const bodyOf = (code: string): string =>
  code.replaceAll(IMPORT, '').replace(/^(?:\/\/[^\n]*\n|\n)+/, '');

const importsOf = (code: string): string =>
  [...code.matchAll(IMPORT)].map(([line]) => line).join('');

/** The names that these lines import. */
const namesIn = (imports: string): string[] =>
  [...imports.matchAll(IMPORT)].flatMap(([, names]) =>
    names!.split(',').map((name) => name.trim().replace('type ', '')),
  );

/** A block of a page or an example of a docstring as a module. */
export function moduleOf(block: Block): string {
  if (fileNameOf(block.code) !== undefined) return block.code;
  if (fragmentNameOf(block.code) !== undefined) return moduleOfExcerpt(block);
  return /^import /m.test(block.code) ? block.code : moduleOfExample(block.code);
}

/** An excerpt has what it imports itself. One without imports has what the page has imported into the same file before. */
function moduleOfExcerpt(block: Block): string {
  const own = importsOf(block.code);
  const body = bodyOf(block.code);
  const imports = own === '' ? importsBefore(block, body) : own;
  return imports + objectsBeside(imports) + embed(body);
}

/** Lines of earlier blocks of the same file which import something that the body names. */
function importsBefore({ page, line, code }: Block, body: string): string {
  const name = fragmentNameOf(code);
  const earlier = blocksOf(readPage(page)).filter(
    (other) =>
      other.line < line && [fileNameOf(other.code), fragmentNameOf(other.code)].includes(name),
  );
  const imports = earlier.flatMap((other) => [...other.code.matchAll(IMPORT)]);
  const lines = imports.flatMap(([text, , from]) =>
    namesIn(text)
      .filter((imported) => new RegExp(`\\b${imported}\\b`).test(body))
      .map((imported) => `import { ${imported} } from '${from!}';\n`),
  );
  return [...new Set(lines)].join('');
}

function moduleOfExample(code: string): string {
  return IMPORTS + objectsBeside(IMPORTS) + embed(bodyOf(code));
}

function objectsBeside(imports: string): string {
  const imported = namesIn(imports);
  const names = OBJECTS.split(' ').filter(
    (name) => !imported.includes(name) && !imports.includes(`declare const ${name}:`),
  );
  return `import { ${names.join(', ')} } from '../surroundings.js';\n${DECLARED}`;
}

function embed(code: string): string {
  if (/^(?:export )?class /m.test(code)) return code;
  if (code.startsWith('RedlockModule.forRoot(')) return `export const imported = ${code}`;
  if (MEMBERS.test(code)) return `export class Example extends Surroundings {\n${code}}\n`;
  if (PROPERTIES.test(code)) return `export const example = ({\n${code}});\n`;
  return `export async function run() {\n${code}}\n`;
}
