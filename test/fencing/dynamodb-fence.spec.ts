import {
  CreateTableCommand,
  DynamoDBClient,
  type KeySchemaElement,
} from '@aws-sdk/client-dynamodb';
import { DynamoDBDocument } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { dynamodbFence, type FenceEvent } from '../../lib/fencing/index.ts';
import { fenceConformance, type FenceStore, type FenceTicket } from '../../lib/testing/index.ts';
import { removeProjects, writePrograms } from '../docs/consumer-project.ts';
import { DynamodbServer } from '../support/dynamodb/dynamodb-server.ts';
import { itConforms, tokenOf } from './support/accounts.ts';
import { usage } from './support/ages.ts';

const ana = { value: 34, keys: ['seat:9'], holder: 'ana' };
const newer = { ...ana, value: 35, holder: 'ben' };
const put = (id: string, more: object = {}) => ({
  Put: { TableName: 'account', Item: { id, text: 'x' }, ...more },
});
const add = { TableName: 'account', Key: { id: 'count' }, UpdateExpression: 'ADD n :one' };
const countUp = { Update: { ...add, ExpressionAttributeValues: { ':one': 1 } } };

describe('dynamodbFence', () => {
  /** The server that passes the kit: another one, such as a real one, when it is named. */
  const kitUrl = () => process.env.DYNAMODB_URL ?? server.url;
  let server: DynamodbServer;
  const clients: DynamoDBClient[] = [];

  function open(endpoint: string, maxAttempts = 3): DynamoDBDocument {
    const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };
    const client = new DynamoDBClient({ endpoint, region: 'any', credentials, maxAttempts });
    clients.push(client);
    return DynamoDBDocument.from(client);
  }
  async function createTable(
    on: DynamoDBDocument,
    name: string,
    ...keys: readonly string[]
  ): Promise<void> {
    const KeySchema = keys.map((AttributeName, index): KeySchemaElement => ({
      AttributeName,
      KeyType: index === 0 ? 'HASH' : 'RANGE',
    }));
    const AttributeDefinitions = keys.map((AttributeName) => ({
      AttributeName,
      AttributeType: 'S' as const,
    }));
    const table = { TableName: name, KeySchema, AttributeDefinitions };
    const command = new CreateTableCommand({ ...table, BillingMode: 'PAY_PER_REQUEST' });
    await on.send(command as never);
  }
  let client: DynamoDBDocument;

  beforeAll(async () => {
    server = await DynamodbServer.start();
    client = open(server.url);
    for (const url of new Set([server.url, kitUrl()])) {
      const on = open(url);
      const isThere = (error: Error): void => expect(error.name).toBe('ResourceInUseException');
      await createTable(on, 'redlock_fence', 'key').catch(isThere);
      await createTable(on, 'account', 'id').catch(isThere);
    }
  });
  afterAll(async () => {
    for (const each of clients) each.destroy();
    await server.stop();
    removeProjects();
  });

  /** Everything that was written to an item of the user. */
  const read = async (id: string, on = client) =>
    (await on.get({ TableName: 'account', Key: { id }, ConsistentRead: true })).Item;
  const readText = async (on: DynamoDBDocument, { resource }: FenceTicket) =>
    (await read(resource, on))?.['text'] ?? null;

  itConforms({
    'the transaction': () => {
      const kitClient = open(kitUrl());
      const fence = dynamodbFence(kitClient);
      const store: FenceStore = {
        claim: (ticket) => fence.claim(tokenOf(ticket)),
        read: (ticket) => readText(kitClient, ticket),
        write: async (ticket, text, pause) => {
          await pause();
          const Item = { id: ticket.resource, text };
          await fence.write(tokenOf(ticket), [{ Put: { TableName: 'account', Item } }]);
        },
      };
      return { store, close: () => undefined };
    },
  });

  it('is no wrong store that compares in its own code, which the kit notices here, too', async () => {
    const fence = dynamodbFence(client);
    const store: FenceStore = {
      claim: (ticket) => fence.claim(tokenOf(ticket)),
      read: (ticket) => readText(client, ticket),
      write: async (ticket, text, pause) => {
        await fence.claim(tokenOf(ticket));
        await pause();
        await client.put({ TableName: 'account', Item: { id: ticket.resource, text } });
      },
    };
    const { cases } = await fenceConformance(store, { idleMs: 1, sessions: 10 });
    const failed = cases.flatMap(({ name, failure }) => (failure === undefined ? [] : [name]));
    expect(failed).toContain(
      'a writer paused between its check and its write loses no update of a newer one',
    );
  });

  it('rejects a stale token of one of several keys with what was seen, and writes nothing', async () => {
    const fence = dynamodbFence(client);
    await fence.claim({ value: 9n, keys: ['a', 'b'], holder: 'new' });
    const write = fence.write({ value: 8, keys: ['b', 'c'], holder: 'old' }, [put('of-c')]);
    const refusal = { key: 'b', token: '8', currentToken: '9', currentHolder: 'new' };
    await expect(write).rejects.toMatchObject({ code: 'STALE_TOKEN', ...refusal });
    await expect(read('of-c')).resolves.toBeUndefined();
    await fence.claim({ value: 1, keys: ['c'], holder: 'first' });
  });

  it('leaves the failure of a condition of the user as it is, with the number of its write', async () => {
    const fence = dynamodbFence(client);
    const failing = put('conditional', { ConditionExpression: 'attribute_exists(id)' });
    const write = fence.write({ ...ana, keys: ['conditional'] }, [put('other'), failing]);
    const reasons = ['None', 'ConditionalCheckFailed', 'None'].map((Code) => ({ Code }));
    const error = { name: 'TransactionCanceledException', CancellationReasons: reasons };
    await expect(write).rejects.toMatchObject(error);
    await expect(read('other')).resolves.toBeUndefined();
  });

  it('sends again what others were in the way of, and gives up after ten times', async () => {
    const events: FenceEvent[] = [];
    const fence = dynamodbFence(client, { onEvent: (event) => void events.push(event) });
    server.faults.push('conflict', 'throttled', 'conflict');
    await fence.write({ ...ana, keys: ['busy'] }, [put('busy')]);
    expect(events.map(({ type }) => type)).toEqual(['retried', 'retried', 'retried', 'admitted']);
    server.faults.push(...Array.from({ length: 10 }, () => 'conflict' as const));
    const write = fence.write({ ...ana, keys: ['busier'] }, [put('busier')]);
    await expect(write).rejects.toMatchObject({ name: 'TransactionCanceledException' });
    expect(server.faults).toEqual([]);
  });

  it('does once what it sends again because the answer was lost', async () => {
    const fence = dynamodbFence(client);
    server.faults.push('lost', 'conflict');
    await fence.write({ ...ana, keys: ['count'] }, [countUp]);
    await expect(read('count')).resolves.toMatchObject({ n: 1 });
  });

  it('rejects with the error of the client when no answer comes, and takes the same token again', async () => {
    const fence = dynamodbFence(open(server.url, 1));
    server.faults.push('lost');
    const write = fence.write({ ...ana, keys: ['lost'] }, [put('lost')]);
    await expect(write).rejects.not.toHaveProperty('code', 'STALE_TOKEN');
    await expect(read('lost')).resolves.toMatchObject({ text: 'x' });
    await fence.write({ ...ana, keys: ['lost'] }, [put('lost')]);
    await fence.claim({ ...newer, keys: ['lost'] });
    const late = fence.write({ ...ana, keys: ['lost'] }, [put('lost')]);
    await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('rejects more actions than a transaction takes, a maxAge, and a client without transactWrite', async () => {
    const many = Array.from({ length: 100 }, (_, index) => put(String(index)));
    const write = dynamodbFence(client).write(ana, many);
    await expect(write).rejects.toEqual(usage(/100 actions.*101.*Nothing was written/));
    const aged = { maxAge: '1d' } as object;
    expect(() => dynamodbFence(client, aged)).toThrow(
      /leave it out: conditions of DynamoDB know no clock/,
    );
    expect(() => dynamodbFence(clients[0] as never)).toThrow(/DynamoDBDocument\.from\(client\)/);
  });

  it('is that of the page, which books a seat once, and not for a holder that is late', async () => {
    await createTable(client, 'seat', 'id');
    process.env.AWS_ENDPOINT_URL_DYNAMODB = server.url;
    for (const name of ['REGION', 'ACCESS_KEY_ID', 'SECRET_ACCESS_KEY'])
      process.env[`AWS_${name}`] = 'any';
    const { book, fence } = await (
      await writePrograms('docs/fencing/dynamodb.md')
    ).load('seats.ts');
    await expect(book(ana, '9', 'ana')).resolves.toBe('booked');
    await expect(book(newer, '9', 'ben')).resolves.toBe('not free');
    const Put = { TableName: 'seat', Item: { id: '9', customer: 'late' } };
    await expect(fence.write(ana, [{ Put }])).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('finds nothing wrong with a right table, where it writes nothing, and an error with others', async () => {
    await expect(dynamodbFence(client).check()).resolves.toEqual([]);
    const Key = { key: 'redlock:check' };
    const { Item } = await client.get({ TableName: 'redlock_fence', Key });
    expect(Item).toBeUndefined();
    await createTable(client, 'sorted', 'key', 'at');
    for (const table of ['missing', 'account', 'sorted']) {
      const found = await dynamodbFence(client, { table }).check();
      expect(found).toEqual([{ severity: 'error', message: expect.stringContaining(table) }]);
    }
    const away = dynamodbFence(open('http://127.0.0.1:1', 1)).check();
    await expect(away).rejects.toThrow('ECONNREFUSED');
  });
});
