import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import { checkOptions, type OptionKind } from '../../core/options/option-names.ts';
import {
  checkedKeys,
  DEFAULT_ATTEMPTS,
  DEFAULT_TABLE,
  FENCE_OPTIONS,
  hasMethods,
  refuseClient,
  text,
} from '../fence-arguments.ts';
import { fenceClaims, staleToken, type FenceClaim } from '../fence-claim.ts';
import { FenceReporter } from '../fence-reporter.ts';
import type {
  FenceEventListener,
  FenceFinding,
  FenceKeys,
  FenceOptions,
  FenceToken,
} from '../fence.ts';

/** The part of a `DynamoDBDocument` of `@aws-sdk/lib-dynamodb` that the fence uses. */
export interface DynamodbDocument {
  /** Does all of the writes, or none of them. */
  transactWrite(input: { TransactItems: any[] | undefined; ClientRequestToken?: string }): any;
}

/** A `Put`, `Update`, `Delete` or `ConditionCheck`, as `transactWrite` of this client takes it. */
export type DynamodbWrite<Client extends DynamodbDocument> = NonNullable<
  Parameters<Client['transactWrite']>[0]['TransactItems']
>[number];

/** The options of {@link dynamodbFence}. */
export interface DynamodbFenceOptions extends Omit<FenceOptions, 'maxAge'> {
  /** The table of the fence, whose partition key is a string with the name `key`. @default 'redlock_fence' */
  readonly table?: string;
}

/** The fence for data in DynamoDB: the token is checked and the data written in one `TransactWriteItems`. */
export interface DynamodbFence<Client extends DynamodbDocument> {
  /**
   * Checks the token and does the writes, all or none. Where DynamoDB cancels them for the sake of another transaction, or because it
   * is busy, they are sent again, up to ten times in all.
   *
   * What the client or the fence sends again is done once, by its `ClientRequestToken`. A call that rejects because no answer came may
   * have written, and another call would do it again.
   *
   * @throws StaleTokenError when a newer holder reached the fence; nothing was written
   * @throws FencedUsageError when the token is missing, malformed or of another key, or there are more than 100 keys and writes
   * @throws TransactionCanceledException of the client when a condition of yours fails; its `CancellationReasons` begin with those of
   * your writes, in their order
   */
  write(
    token: FenceToken | undefined,
    writes: readonly DynamodbWrite<Client>[],
    options?: FenceKeys,
  ): Promise<void>;
  /**
   * Brings the token to the fence; call it before reading what the writes will depend on, with `ConsistentRead: true`.
   * @throws StaleTokenError, FencedUsageError
   */
  claim(token: FenceToken | undefined, options?: FenceKeys): Promise<void>;
  /** Tries whether the table can do what the fence needs, in a transaction that is always cancelled. */
  check(): Promise<readonly FenceFinding[]>;
  /** Calls `listener` for all that happens at this fence from now on, until the returned function is called. */
  observe(listener: FenceEventListener): () => void;
}

const OPTIONS = {
  table: text(/^[\w.-]{3,255}$/, 'give the name of a table of DynamoDB'),
  onStale: FENCE_OPTIONS.onStale,
  onEvent: FENCE_OPTIONS.onEvent,
  maxAge: ((value, option) => {
    throw new RedlockConfigError(
      option,
      value,
      'leave it out: conditions of DynamoDB know no clock',
    );
  }) as OptionKind<never>,
};

/** DynamoDB takes no more in a transaction. */
const MOST_ACTIONS = 100;

/** What one action of a cancelled transaction had to do with that. */
interface CancellationReason {
  readonly Code?: string;
  /** The item of a condition that failed. The client for documents leaves errors as they came. */
  readonly Item?: { readonly token?: { N: string }; readonly holder?: { S: string } };
}

const FAILED = 'ConditionalCheckFailed';
/** The codes of actions that stood in the way of nothing, or whose obstacle may be gone a moment later. */
const PASSING = /^(None|TransactionConflict|ThrottlingError|ProvisionedThroughputExceeded)$/;

/**
 * The fence over tables of DynamoDB.
 *
 * @example
 * ```ts
 * import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
 * import { DynamoDBDocument } from '@aws-sdk/lib-dynamodb';
 * import { dynamodbFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = dynamodbFence(DynamoDBDocument.from(new DynamoDBClient()));
 * await fence.write(token, [{ Put: { TableName: 'seat', Item: { id: '12A', customer: 'ana' } } }]);
 * ```
 * @param client whose retries are those of the SDK
 * @throws RedlockConfigError
 */
export function dynamodbFence<Client extends DynamodbDocument>(
  client: Client,
  options: DynamodbFenceOptions = {},
): DynamodbFence<Client> {
  if (!hasMethods(client, ['transactWrite']))
    refuseClient('dynamodbFence', client, 'DynamoDBDocument.from(client) of @aws-sdk/lib-dynamodb');
  const { table = DEFAULT_TABLE, ...listeners } = checkOptions('dynamodbFence', OPTIONS, options);
  const reporter = new FenceReporter(listeners);

  const bring = async (
    operation: 'write' | 'claim',
    token: FenceToken | undefined,
    writes: readonly object[],
    called?: FenceKeys,
  ) => {
    const claims = fenceClaims(token, checkedKeys(`fence.${operation}`, called));
    // The writes come first, so that the reasons of a cancellation have their numbers.
    const TransactItems = [...writes, ...claims.map((claim) => advance(table, claim))];
    if (TransactItems.length > MOST_ACTIONS)
      throw new FencedUsageError(
        `DynamoDB takes ${MOST_ACTIONS} actions in a transaction, and these are ${TransactItems.length}: ${writes.length} writes, and one for each key of the token. Nothing was written.`,
        claims.map(({ key }) => key),
      );
    const transaction = { TransactItems, ClientRequestToken: randomUUID() };

    const run = async (count = 1): Promise<void> => {
      try {
        await client.transactWrite(transaction);
      } catch (error) {
        const reasons = reasonsOf(error);
        refuseStale(claims, reasons.slice(writes.length));
        if (count >= DEFAULT_ATTEMPTS || !isPassing(error, reasons)) throw error;
        reporter.retried(claims, count, error);
        await delay(Math.random() * Math.min(1_000, 20 * 2 ** count));
        await run(count + 1);
      }
    };
    await reporter.reporting(token, claims, operation, () => run());
  };
  return {
    write: (token, writes, called) => bring('write', token, writes, called),
    claim: (token, called) => bring('claim', token, [], called),
    check: () => check(client, table),
    observe: (listener) => reporter.observe(listener),
  };
}

/** Remembers the token of a key where it is the newest. */
function advance(TableName: string, { key, token, holder }: FenceClaim): object {
  return {
    Update: {
      TableName,
      Key: { key },
      UpdateExpression: 'SET #t = :t, #h = :h',
      ConditionExpression: 'attribute_not_exists(#t) OR #t < :t OR (#t = :t AND #h = :h)',
      ExpressionAttributeNames: { '#t': 'token', '#h': 'holder' },
      // A number of JavaScript could not have all digits.
      ExpressionAttributeValues: { ':t': BigInt(token), ':h': holder },
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    },
  };
}

const reasonsOf = (error: unknown): readonly CancellationReason[] =>
  (error as { CancellationReasons?: CancellationReason[] }).CancellationReasons ?? [];

/** @param reasons of the claims @throws StaleTokenError */
function refuseStale(claims: readonly FenceClaim[], reasons: readonly CancellationReason[]): void {
  for (const [index, { Code, Item }] of reasons.entries()) {
    const { key, token } = claims[index]!;
    if (Code === FAILED) throw staleToken(key, token, Item?.token?.N ?? '', Item?.holder?.S ?? '');
  }
}

/** Whether the same transaction may pass a moment later. */
function isPassing(error: unknown, reasons: readonly CancellationReason[]): boolean {
  if ((error as Error).name === 'TransactionInProgressException') return true;
  return reasons.length > 0 && reasons.every(({ Code = 'None' }) => PASSING.test(Code));
}

/** The second action fails for a right table, so that the first one changes nothing. */
async function check(client: DynamodbDocument, table: string): Promise<readonly FenceFinding[]> {
  const claim = advance(table, { key: 'redlock:check', token: '1', holder: 'check' });
  const never = { TableName: table, Key: { key: 'redlock:never' } };
  const failing = { ...never, ConditionExpression: 'attribute_exists(holder)' };
  try {
    await client.transactWrite({ TransactItems: [claim, { ConditionCheck: failing }] });
  } catch (error) {
    const code = reasonsOf(error)[1]?.Code;
    if (code === FAILED) return [];
    const isWrong = /^(ResourceNotFound|Validation)/.test(code ?? (error as Error).name);
    if (!isWrong) throw error;
  }
  const message = `DynamoDB has no table '${table}' whose only key is a string with the name 'key': create it`;
  return [{ severity: 'error', message }];
}
