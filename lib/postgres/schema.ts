import * as votes from './voting-functions.ts';

/** Several processes may run the SQL at their start, as one transaction each. */
export const ONE_AT_A_TIME = `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('nestjs-fenced-lock'));`;

const LEASES = `-- A row for each key that was locked in the last minutes. holder: NULL is free; '#' and the mark of a process: free, and kept for that
-- one for a moment. token: the newest number that was granted; lower ones are refused. previous: what it was before that attempt.
CREATE TABLE IF NOT EXISTS redlock_lease (
  resource text COLLATE "C" PRIMARY KEY,
  holder text,
  token bigint NOT NULL DEFAULT 0,
  previous bigint NOT NULL DEFAULT 0,
  valid_until timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);`;

const WAITERS = `-- The processes that wait for a lock, in the order of their tickets.
CREATE TABLE IF NOT EXISTS redlock_waiter (
  resource text COLLATE "C" NOT NULL,
  mark text NOT NULL,
  ticket bigint NOT NULL,
  grace_ms integer NOT NULL,
  listens boolean NOT NULL,
  waits_until timestamptz NOT NULL,
  PRIMARY KEY (resource, mark)
) WITH (fillfactor = 50);`;

const PROCESSES = `-- What the processes that take locks say of themselves; and, under the name '', the name of this database, and when rows were deleted.
CREATE TABLE IF NOT EXISTS redlock_process (
  name text COLLATE "C" PRIMARY KEY,
  identity text,
  marker text,
  configuration text,
  lowest integer,
  highest integer,
  joined_at timestamptz NOT NULL DEFAULT clock_timestamp()
);`;

const RUN = `-- Runs the calls of a batch in their order, in one transaction, and returns their answers. At first nothing is waited for. Where a row is
-- missing, or somebody else has one that is worth a wait, all of it is undone; the rows are made and waited for, and it runs again.
CREATE OR REPLACE FUNCTION redlock_v1(calls jsonb, lock_timeout_ms integer) RETURNS text LANGUAGE plpgsql AS $redlock$
DECLARE
  called jsonb;
  reply jsonb;
  replies jsonb[];
  synced constant text := current_setting('synchronous_commit');
  is_durable boolean := false;
  here text;
  applied text;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'locks need the isolation level read committed, and this connection begins with %', current_setting('transaction_isolation')
      USING HINT = 'ALTER ROLE ... SET default_transaction_isolation = ''read committed''';
  END IF;
  applied := set_config('lock_timeout', lock_timeout_ms::text, true);
  FOR pass IN 1..2 LOOP
    BEGIN
      IF pass = 2 THEN PERFORM redlock_v1_prepare(calls); END IF;
      replies := '{}';
      FOR called IN SELECT jsonb_array_elements(calls) LOOP
        is_durable := is_durable OR called->>'do' NOT IN ('release', 'wait');
        IF here IS NULL AND called ? 'server' THEN SELECT identity INTO here FROM redlock_process WHERE name = ''; END IF;
        IF called ? 'server' AND called->>'server' IS DISTINCT FROM here THEN
          -- A balancer, a name or a search_path leads to other tables than before. What one process has locked there, nobody sees here.
          reply := '{"kind": "failed", "nothingWritten": true, "reason": "error", "message": "another database, or another schema, answers than before: give locks connections that lead to one, and restart this process if that is another one now"}';
        ELSE
          reply := CASE called->>'do'
            WHEN 'acquire' THEN redlock_v1_acquire(called)
            WHEN 'extend' THEN redlock_v1_extend(called)
            WHEN 'release' THEN redlock_v1_release(called)
            WHEN 'wait' THEN redlock_v1_wait(called)
            WHEN 'join' THEN redlock_v1_join(called)
            WHEN 'inspect' THEN redlock_v1_inspect(called)
            WHEN 'revoke' THEN redlock_v1_revoke(called)
            WHEN 'list' THEN redlock_v1_list(called)
          END;
        END IF;
        IF reply IS NULL AND pass = 1 THEN RAISE SQLSTATE 'RL001'; END IF;
        -- Somebody has its row for long.
        replies := array_append(replies, coalesce(reply,
          '{"kind": "failed", "nothingWritten": false, "reason": "error", "message": "another transaction has its row"}'));
      END LOOP;
      EXIT;
    EXCEPTION WHEN SQLSTATE 'RL001' THEN NULL;
    END;
  END LOOP;
  -- A release that a crash undoes leaves a lock that ends by itself: it need not wait for the disk.
  IF is_durable AND synced = 'off' THEN applied := set_config('synchronous_commit', 'on', true);
  ELSIF NOT is_durable THEN applied := set_config('synchronous_commit', 'off', true);
  END IF;
  RETURN to_jsonb(replies)::text;
END
$redlock$;`;

const PREPARE = `-- Makes the rows that calls need, and waits for those that are worth it, in the order of their names: so batches never wait in a circle.
CREATE OR REPLACE FUNCTION redlock_v1_prepare(calls jsonb) RETURNS void LANGUAGE plpgsql AS $redlock$
BEGIN
  INSERT INTO redlock_lease (resource) SELECT DISTINCT jsonb_array_elements_text(each->'locks') FROM jsonb_array_elements(calls) AS each
    WHERE each->>'do' IN ('acquire', 'wait') ORDER BY 1 ON CONFLICT DO NOTHING;
  BEGIN
    PERFORM FROM redlock_lease WHERE resource IN (SELECT jsonb_array_elements_text(each->'locks') FROM jsonb_array_elements(calls) AS each
      WHERE each->>'do' IN ('extend', 'release', 'wait', 'revoke')) ORDER BY resource FOR UPDATE;
  EXCEPTION WHEN lock_not_available THEN
    NULL; -- somebody holds one of them for long: only the calls for that one fail
  END;
END
$redlock$;`;

const JOIN = `-- Names this database, and the other configurations; notes what the process says of itself; deletes what is out of date, where nobody
-- has done that for as long as rows are kept.
CREATE OR REPLACE FUNCTION redlock_v1_join(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  server text;
  other redlock_process;
  others jsonb;
  old constant timestamptz := clock_timestamp() - (called->>'retentionMs')::bigint * interval '1 millisecond';
BEGIN
  SELECT identity INTO server FROM redlock_process WHERE name = '';
  IF NOT FOUND THEN
    INSERT INTO redlock_process (name, identity) VALUES ('', gen_random_uuid()::text) ON CONFLICT DO NOTHING;
    SELECT identity INTO server FROM redlock_process WHERE name = '';
  END IF;
  SELECT * INTO other FROM redlock_process WHERE marker = called->>'marker' AND joined_at > clock_timestamp() - interval '1 day'
    AND (lowest > (called->>'highest')::integer OR highest < (called->>'lowest')::integer) LIMIT 1;
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'disagree', 'versions', jsonb_build_array(other.lowest, other.highest), 'floorRetentionMs', (called->>'retentionMs')::bigint);
  END IF;
  INSERT INTO redlock_process (name, identity, marker, configuration, lowest, highest)
    VALUES (called->>'name', called->>'identity', called->>'marker', called->>'configuration', (called->>'lowest')::integer, (called->>'highest')::integer)
    ON CONFLICT (name) DO UPDATE SET identity = EXCLUDED.identity, configuration = EXCLUDED.configuration, lowest = EXCLUDED.lowest,
      highest = EXCLUDED.highest, joined_at = clock_timestamp();
  UPDATE redlock_process SET joined_at = clock_timestamp() WHERE ctid = ANY (ARRAY(SELECT ctid FROM redlock_process
    WHERE name = '' AND joined_at < old FOR UPDATE SKIP LOCKED));
  IF FOUND THEN
    -- A lease whose number is ahead of the clock stays until the clock has passed it.
    DELETE FROM redlock_lease WHERE ctid = ANY (ARRAY(SELECT ctid FROM redlock_lease
      WHERE valid_until < old AND token < extract(epoch FROM old) * 1000000 FOR UPDATE SKIP LOCKED));
    DELETE FROM redlock_waiter WHERE ctid = ANY (ARRAY(SELECT ctid FROM redlock_waiter WHERE waits_until < old FOR UPDATE SKIP LOCKED));
    DELETE FROM redlock_process WHERE ctid = ANY (ARRAY(SELECT ctid FROM redlock_process
      WHERE name <> '' AND joined_at < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED));
  END IF;
  SELECT jsonb_agg(configuration ORDER BY latest) INTO others FROM (
    SELECT configuration, max(joined_at) AS latest FROM redlock_process
    WHERE marker = called->>'marker' AND configuration <> called->>'configuration' AND joined_at > clock_timestamp() - interval '1 day'
    GROUP BY configuration ORDER BY latest DESC LIMIT 16
  ) AS known;
  RETURN jsonb_strip_nulls(jsonb_build_object('kind', 'joined', 'quarantineMs', 0, 'server', server, 'others', others));
END
$redlock$;`;

const INSPECT = `-- Who holds these locks longest, and the highest number of them. Writes nothing.
CREATE OR REPLACE FUNCTION redlock_v1_inspect(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  names constant text[] := ARRAY(SELECT jsonb_array_elements_text(called->'locks'));
  l redlock_lease;
  newest bigint;
BEGIN
  SELECT coalesce(max(token), 0) INTO newest FROM redlock_lease WHERE resource = ANY (names);
  SELECT * INTO l FROM redlock_lease WHERE resource = ANY (names) AND valid_until > clock_timestamp() AND left(holder, 1) <> '#'
    ORDER BY valid_until DESC LIMIT 1;
  RETURN jsonb_build_object('kind', 'inspected', 'holder', l.holder, 'floor', newest,
    'remainingMs', CASE WHEN l.holder IS NULL THEN 0 ELSE redlock_v1_left(l.valid_until) END,
    'process', (SELECT identity FROM redlock_process WHERE name = (called->>'processes') || left(l.holder, 8) AND joined_at > clock_timestamp() - interval '1 minute'));
END
$redlock$;`;

const REVOKE = `-- Puts a word in place of a holder: the lock stays taken, and its holder is notified.
CREATE OR REPLACE FUNCTION redlock_v1_revoke(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  floor constant bigint := called->>'floor';
  now_micros constant bigint := extract(epoch FROM clock_timestamp()) * 1000000;
  l redlock_lease;
BEGIN
  SELECT * INTO l FROM redlock_lease WHERE resource = called->'locks'->>0 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND AND EXISTS (SELECT FROM redlock_lease WHERE resource = called->'locks'->>0) THEN RETURN NULL; END IF;
  IF l.holder IS NULL OR l.valid_until <= clock_timestamp()
    OR l.holder <> called->>'holder' AND (floor IS NULL OR l.holder <> called->>'value') THEN
    RETURN '{"kind": "revoked", "remainingMs": null}';
  END IF;
  IF NOT isfinite(l.valid_until) OR l.token = 0 THEN
    RETURN jsonb_build_object('kind', 'failed', 'nothingWritten', true, 'reason', 'error', 'message', 'WRONGTYPE ' || l.resource || ' holds data that is no lock');
  END IF;
  IF floor < l.token + 2 THEN
    IF floor = l.token AND l.holder = called->>'value' THEN
      PERFORM pg_notify('redlock_' || left(called->>'holder', 8), '-1 ' || l.resource);
    END IF;
    RETURN jsonb_build_object('kind', 'outnumbered', 'limit', l.token);
  END IF;
  IF floor > greatest(now_micros + 86400000000, l.token + 1000000) THEN
    RETURN jsonb_build_object('kind', 'outnumbered', 'limit', greatest(now_micros, l.token));
  END IF;
  PERFORM pg_notify('redlock_' || left(called->>'holder', 8), '-1 ' || l.resource);
  UPDATE redlock_lease SET holder = called->>'value', token = coalesce(floor, token), previous = coalesce(floor, previous),
    valid_until = greatest(valid_until, clock_timestamp() + (called->>'leastMs')::integer * interval '1 millisecond')
    WHERE resource = l.resource RETURNING * INTO l;
  RETURN jsonb_build_object('kind', 'revoked', 'remainingMs', redlock_v1_left(l.valid_until));
END
$redlock$;`;

const LIST = `-- The names of locks that are held. Writes nothing.
CREATE OR REPLACE FUNCTION redlock_v1_list(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  names constant text[] := ARRAY(SELECT resource FROM redlock_lease
    WHERE starts_with(resource, called->>'begin') AND valid_until > clock_timestamp() AND left(holder, 1) <> '#'
    ORDER BY resource LIMIT (called->>'most')::integer + 1);
BEGIN
  RETURN jsonb_build_object('kind', 'listed', 'isComplete', cardinality(names) <= (called->>'most')::integer,
    'names', to_jsonb(names[1:(called->>'most')::integer]));
END
$redlock$;`;

/**
 * The protocol of the node as functions of the database: one statement a batch, whatever is in it, so that poolers in transaction mode
 * and ORMs can carry it. They are what the Lua scripts are to a Redis server, command by command.
 *
 * **No statement waits behind a user.** A row that another transaction has locked is skipped, and the caller hears that the lock is
 * busy. Where a row of the lease is worth a short wait, all of the batch is undone, and waits for its rows in the order of their names
 * before it runs again. So batches never wait for each other in a circle, and a time that is read behind the locks is never one from
 * before a wait.
 *
 * Who touches the line of a lock has the row of its lease, so that no waiter is overlooked by the release that should name it.
 *
 * A new version of these functions gets new names: releases that differ use the same tables side by side. The SQL is safe to run again.
 */
export function lockTables(schema: string, fenceTable: string): string {
  const parts = [
    LEASES,
    WAITERS,
    PROCESSES,
    RUN,
    PREPARE,
    ...Object.values(votes),
    JOIN,
    INSPECT,
    REVOKE,
    LIST,
  ];
  return parts
    .join('\n\n')
    .replaceAll(/redlock_(?=lease|waiter|process|v1)/g, `${schema}redlock_`)
    .replaceAll('redlock_fence', fenceTable);
}

/** The function that runs commands. */
export function runFunction(schema: string): string {
  return `${schema}redlock_v1`;
}
