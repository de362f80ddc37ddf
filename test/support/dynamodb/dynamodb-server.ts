import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import dynalite from 'dynalite';
import { cancelled, RefusedOperation, Transactions, type Call } from './transactions.ts';

/** What happens to the next transaction: others are in its way, or its answer is lost after it was done. */
export type TransactionFault = 'conflict' | 'throttled' | 'lost';

const CODES = { conflict: 'TransactionConflict', throttled: 'ThrottlingError' } as const;

/** Dynalite with the transactions that it lacks, in this process. */
export class DynamodbServer {
  /** What happens to the next transactions, in turn. */
  readonly faults: TransactionFault[] = [];
  readonly #transactions = new Transactions();
  readonly #dynalite = dynalite({ createTableMs: 0, deleteTableMs: 0 });
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  /** One operation at a time: nobody sees half a transaction. */
  #last: Promise<unknown> = Promise.resolve();

  static async start(): Promise<DynamodbServer> {
    const server = new DynamodbServer();
    for (const each of [server.#dynalite, server.#server]) {
      each.listen(0, '127.0.0.1');
      await once(each, 'listening');
    }
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#dynalite.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [version = '', operation = ''] = String(request.headers['x-amz-target']).split('.');
    const input = JSON.parse(await text(request));
    const call = this.#calling(version, request);
    const turn = this.#last.then(() =>
      operation === 'TransactWriteItems' ? this.#transact(call, input) : call(operation, input),
    );
    this.#last = turn.catch(() => undefined);
    try {
      const answer = await turn;
      if (answer === undefined) response.destroy();
      else response.end(JSON.stringify(answer));
    } catch (error) {
      response.statusCode = error instanceof RefusedOperation ? 400 : 500;
      response.end(JSON.stringify(error instanceof RefusedOperation ? error.body : {}));
    }
  }

  /** Resolves with nothing where the answer shall be lost. */
  async #transact(call: Call, input: any): Promise<object | undefined> {
    const fault = this.faults.shift();
    if (fault === 'conflict' || fault === 'throttled')
      throw cancelled(
        input.TransactItems.map((_: unknown, index: number) => ({
          Code: index === 0 ? CODES[fault] : 'None',
        })),
      );
    const answer = await this.#transactions.write(call, input);
    return fault === 'lost' ? undefined : answer;
  }

  #calling(version: string, { headers }: IncomingMessage): Call {
    const { port } = this.#dynalite.address() as AddressInfo;
    const { authorization = '', 'x-amz-date': date } = headers;
    return async (operation, input) => {
      const response = await fetch(`http://127.0.0.1:${port}`, {
        method: 'POST',
        headers: {
          authorization,
          'x-amz-date': String(date),
          'x-amz-target': `${version}.${operation}`,
          'content-type': 'application/x-amz-json-1.0',
        },
        body: JSON.stringify(input),
      });
      const body = (await response.json()) as Readonly<Record<string, unknown>>;
      if (!response.ok) throw new RefusedOperation(body);
      return body;
    };
  }
}
