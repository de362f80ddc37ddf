import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import { prismaFence, type SqlFenceOptions } from '../../../lib/fencing/index.ts';
import { runCommand } from '../../support/redis-servers/run-command.ts';
import { AGED, fencedAccounts, type Accounts, type OpenStore } from './account-stores.ts';

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

interface Account {
  resource: string;
  text: string;
}

/** What the generated client gives to this test. */
interface Client {
  $transaction(work: any, options?: any): Promise<any>;
  $queryRawUnsafe(sql: string, ...parameters: any[]): Promise<any>;
  $executeRawUnsafe(sql: string, ...parameters: any[]): Promise<any>;
  $disconnect(): Promise<void>;
  account: {
    findUnique(query: { where: { resource: string } }): Promise<Account | null>;
    upsert(query: {
      where: { resource: string };
      create: Account;
      update: { text: string };
    }): Promise<Account>;
  };
}

/** Generates a real Prisma client in a folder that `close` removes and opens it over a driver adapter. */
export async function openPrismaClient(
  adapter: object,
  dialect: 'postgresql' | 'mysql' = 'postgresql',
  options: Pick<SqlFenceOptions, 'maxAge'> = {},
) {
  // Inside the project: Prisma looks for its packages from the schema upwards.
  await mkdir('.cache', { recursive: true });
  const folder = await mkdtemp(join(process.cwd(), '.cache/prisma-'));
  await writeFile(join(folder, 'schema.prisma'), schema(dialect));
  await runCommand(
    process.execPath,
    [
      join(process.cwd(), 'node_modules/prisma/build/index.js'),
      'generate',
      '--schema',
      join(folder, 'schema.prisma'),
    ],
    {
      cwd: process.cwd(),
      // Generating needs no schema engine; without this Prisma would download one.
      environment: {
        ...process.env,
        PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true',
        PRISMA_HIDE_UPDATE_MESSAGE: '1',
        CI: '1',
      },
    },
  );
  const load = createRequire(join(process.cwd(), 'package.json'));
  const { PrismaClient } = load(join(folder, 'client/index.js')) as {
    PrismaClient: new (options: object) => Client;
  };
  const prisma = new PrismaClient({ adapter });
  const fence = prismaFence(prisma, { ...options, dialect, timeout: '20s', maxWait: '20s' });
  const close = async (): Promise<void> => {
    await prisma.$disconnect();
    await rm(folder, { recursive: true, force: true });
  };
  return { prisma, fence, close };
}

export const prismaPg = (url: string) => new PrismaPg({ connectionString: url, max: 30 });

/** Accounts through the model of the generated client. */
export function prismaAccounts(prisma: Client): Accounts<any> {
  return {
    read: async (resource) =>
      (await prisma.account.findUnique({ where: { resource } }))?.text ?? null,
    write: (transaction, resource, text) =>
      transaction.account.upsert({
        where: { resource },
        create: { resource, text },
        update: { text },
      }),
  };
}

export async function openPrisma(url: string): Promise<OpenStore> {
  const { prisma, fence, close } = await openPrismaClient(prismaPg(url), 'postgresql', AGED);
  return { store: fencedAccounts(fence, prismaAccounts(prisma)), close };
}
