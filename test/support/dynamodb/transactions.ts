import { createHash } from 'node:crypto';

type Item = Readonly<Record<string, unknown>>;

/** One action of a transaction, as TransactWriteItems takes it. */
interface Action {
  readonly TableName: string;
  readonly Key?: Item;
  readonly Item?: Item;
  readonly ReturnValuesOnConditionCheckFailure?: string;
}

interface Input {
  readonly TransactItems: readonly Readonly<Record<string, Action>>[];
  readonly ClientRequestToken?: string;
}

interface Reason {
  readonly Code: string;
  readonly Message?: string;
  readonly Item?: Item | undefined;
}

/** Calls an operation of the server. @throws RefusedOperation */
export type Call = (operation: string, input: object) => Promise<Readonly<Record<string, any>>>;

/** The answer of a server that refuses an operation. */
export class RefusedOperation extends Error {
  constructor(readonly body: Readonly<Record<string, unknown>>) {
    super(String(body['message']));
  }

  get type(): string {
    return String(this.body['__type']).split('#').pop()!;
  }
}

const refused = (type: string, message: string, more: object = {}): RefusedOperation =>
  new RefusedOperation({
    __type: `com.amazonaws.dynamodb.v20120810#${type}`,
    message,
    ...more,
  });

const OPERATIONS: Readonly<Record<string, string>> = {
  Put: 'PutItem',
  Update: 'UpdateItem',
  Delete: 'DeleteItem',
  ConditionCheck: 'UpdateItem',
};

/**
 * TransactWriteItems as DynamoDB describes it, for a server that has the other operations. It does the actions one after another,
 * and undoes them when one is refused: nothing else may reach the server meanwhile.
 */
export class Transactions {
  /** The digests of what was done, by ClientRequestToken. */
  readonly #done = new Map<string, string>();

  async write(call: Call, { TransactItems, ClientRequestToken }: Input): Promise<object> {
    const digest = createHash('sha256').update(JSON.stringify(TransactItems)).digest('hex');
    const before = ClientRequestToken && this.#done.get(ClientRequestToken);
    if (before === digest) return {};
    if (before) throw refused('IdempotentParameterMismatchException', 'another request');
    if (TransactItems.length > 100)
      throw refused('ValidationException', 'Member must have length less than or equal to 100');
    await act(call, TransactItems);
    if (ClientRequestToken) this.#done.set(ClientRequestToken, digest);
    return {};
  }
}

async function act(call: Call, items: Input['TransactItems']): Promise<void> {
  const reasons: Reason[] = [];
  const undo: (() => Promise<unknown>)[] = [];
  const seen = new Set<string>();
  for (const item of items) {
    const [[kind, action]] = Object.entries(item) as [[string, Action]];
    const { TableName } = action;
    const Key = action.Key ?? (await keyOf(call, TableName, action.Item!));
    const name = JSON.stringify([TableName, Key]);
    if (seen.has(name))
      throw refused('ValidationException', 'cannot include multiple operations on one item');
    seen.add(name);
    reasons.push(await attempt(call, kind, { ...action, Key }, undo));
  }
  if (reasons.every(({ Code }) => Code === 'None')) return;
  for (const restore of undo.toReversed()) await restore();
  throw cancelled(reasons);
}

/** Does one action, adds what undoes it, and returns the reason why it could not be done. */
async function attempt(
  call: Call,
  kind: string,
  { Key, ReturnValuesOnConditionCheckFailure: returns, ...rest }: Action,
  undo: (() => Promise<unknown>)[],
): Promise<Reason> {
  const { TableName } = rest;
  let old: Item | undefined;
  try {
    ({ Item: old } = await call('GetItem', { TableName, Key, ConsistentRead: true }));
    await call(OPERATIONS[kind]!, kind === 'Put' ? rest : { ...rest, Key });
  } catch (error) {
    const { type, message } = error as Partial<RefusedOperation>;
    if (type === 'ValidationException') return { Code: 'ValidationError', Message: message! };
    if (type !== 'ConditionalCheckFailedException') throw error;
    return { Code: 'ConditionalCheckFailed', Item: returns === 'ALL_OLD' ? old : undefined };
  }
  const restore = () =>
    old ? call('PutItem', { TableName, Item: old }) : call('DeleteItem', { TableName, Key });
  if (kind === 'ConditionCheck') await restore();
  else undo.push(restore);
  return { Code: 'None' };
}

/** A transaction of which nothing was done. */
export function cancelled(reasons: readonly Reason[]): RefusedOperation {
  const codes = reasons.map(({ Code }) => Code).join(', ');
  const message = `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`;
  return refused('TransactionCanceledException', message, {
    Message: message,
    CancellationReasons: reasons,
  });
}

async function keyOf(call: Call, TableName: string, item: Item): Promise<Item> {
  const { Table } = await call('DescribeTable', { TableName });
  const schema = Table.KeySchema as readonly { AttributeName: string }[];
  return Object.fromEntries(schema.map(({ AttributeName: name }) => [name, item[name]]));
}
