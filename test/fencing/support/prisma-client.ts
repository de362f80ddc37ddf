import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import { prismaFence, type Fence, type SqlFenceOptions } from '../../../lib/fencing/index.ts';
import { runCommand } from '../../support/redis-servers/run-command.ts';
import type { FencedClient } from './clients.ts';

const schema = (dialect: 'postgresql' | 'mysql'): string => `
generator client {
  provider = "prisma-client-js"
  output   = "./client"
}
datasource db {
  provider = "${dialect}"
}
model Account {
  resource String @id
  text     String
  @@map("account")
}
`;

/** Generates a real Prisma client in a folder that `close` removes and opens it over a driver adapter. */
export async function openPrismaClient(
  adapter: object,
  dialect: 'postgresql' | 'mysql',
  options: SqlFenceOptions = {},
): Promise<FencedClient> {
  // The folder is inside the project: Prisma looks for its packages from the schema upwards.
  await mkdir('.cache', { recursive: true });
  const folder = await mkdtemp(join(process.cwd(), '.cache/prisma-'));
  await writeFile(join(folder, 'schema.prisma'), schema(dialect));
  const prismaCommand = join(process.cwd(), 'node_modules/prisma/build/index.js');
  // Generating needs no schema engine; without the first variable Prisma would download one.
  const environment = {
    ...process.env,
    PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true',
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
    CI: '1',
  };
  await runCommand(
    process.execPath,
    [prismaCommand, 'generate', '--schema', join(folder, 'schema.prisma')],
    { cwd: process.cwd(), environment },
  );
  const load = createRequire(join(process.cwd(), 'package.json'));
  const { PrismaClient } = load(join(folder, 'client/index.js'));
  const prisma = new PrismaClient({ adapter });
  const limits = { timeout: '2m', maxWait: '2m' } as const;
  return {
    fence: prismaFence(prisma, { ...options, dialect, ...limits }) as Fence,
    outside: [prisma],
    run: (work) => prisma.$transaction(work),
    execute: (transaction, text) => transaction.$executeRawUnsafe(text),
    close: async () => {
      await prisma.$disconnect();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export const prismaPg = (url: string) => new PrismaPg({ connectionString: url, max: 30 });
