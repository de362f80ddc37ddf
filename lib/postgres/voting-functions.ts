/** The functions that votes and waiting call: see `lockTables`. */

export const LEFT = `-- The rest of a lease in ms; -1: it has no end.
CREATE OR REPLACE FUNCTION redlock_v1_left(valid_until timestamptz) RETURNS bigint LANGUAGE plpgsql AS $redlock$
BEGIN
  IF NOT isfinite(valid_until) THEN RETURN -1; END IF;
  RETURN greatest(0, ceil(extract(epoch FROM valid_until - clock_timestamp()) * 1000));
END
$redlock$;`;

export const ACQUIRE = `-- Accepts the ballot of an attempt on all of its keys, or on none. Where it is the only vote, it is the grant: the fence learns of it
-- in the same commit, so that a former holder can't write from then on.
CREATE OR REPLACE FUNCTION redlock_v1_acquire(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
#variable_conflict use_variable
DECLARE
  last constant integer := jsonb_array_length(called->'locks') - 1;
  last_fenced constant integer := jsonb_array_length(called->'fenced') - 1;
  me constant text := called->>'holder';
  ballot constant bigint := called->>'ballot';
  kept constant text := '#' || left(me, 8);
  now_us bigint;
  newest bigint := 0;
  least_us bigint := 0;
  by_clock boolean;
  is_held boolean;
  is_mine boolean;
  absent text[] := '{}';
  patience constant text := current_setting('lock_timeout');
  applied text;
  l redlock_lease;
  f redlock_fence;
BEGIN
  -- A refusal locks nothing, so it writes nothing, and does not wait for the disk. A set is looked at first.
  FOR pass IN CASE last WHEN 0 THEN 2 ELSE 1 END..2 LOOP
    FOR i IN 0..last LOOP
      IF pass = 2 THEN
        SELECT * INTO l FROM redlock_lease WHERE resource = called->'locks'->>i
          AND (holder IS NULL OR holder IN (me, kept) OR valid_until <= clock_timestamp()) FOR UPDATE SKIP LOCKED;
      END IF;
      IF pass = 1 OR NOT FOUND THEN
        SELECT * INTO l FROM redlock_lease WHERE resource = called->'locks'->>i;
        IF NOT FOUND THEN RETURN NULL; END IF;
        is_held := l.holder NOT IN (me, kept) AND l.valid_until > clock_timestamp();
        IF is_held OR pass = 2 THEN
          IF last > 0 THEN
            SELECT max(token) INTO newest FROM redlock_lease WHERE resource IN (SELECT jsonb_array_elements_text(called->'locks'));
          END IF;
          RETURN jsonb_build_object('kind', 'held', 'index', i, 'holder', coalesce(l.holder, ''), 'floor', greatest(newest, l.token),
            'remainingMs', CASE WHEN is_held THEN redlock_v1_left(l.valid_until) ELSE 1 END)
            || CASE WHEN is_held THEN '{}' ELSE '{"why": "another transaction has its row"}' END::jsonb;
        END IF;
      END IF;
      newest := greatest(newest, l.token);
      -- The same ballot of the same attempt again is no lower one.
      is_mine := l.holder = me AND l.valid_until > clock_timestamp();
      least_us := greatest(least_us, l.token - (is_mine IS TRUE AND l.token = ballot)::integer);
    END LOOP;
  END LOOP;
  FOR i IN 0..last_fenced LOOP
    SELECT * INTO f FROM redlock_fence WHERE resource = called->'fenced'->>i FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      newest := greatest(newest, f.token);
      least_us := greatest(least_us, f.token - (f.token = ballot AND f.holder = me)::integer);
    ELSE
      SELECT * INTO f FROM redlock_fence WHERE resource = called->'fenced'->>i;
      IF FOUND THEN -- a transaction of a former holder is open
        RETURN jsonb_build_object('kind', 'held', 'index', i, 'remainingMs', 20, 'holder', f.holder, 'floor', newest,
          'why', 'a fence transaction of the holder before is still open');
      END IF;
      absent := array_append(absent, called->'fenced'->>i);
    END IF;
  END LOOP;
  now_us := extract(epoch FROM clock_timestamp()) * 1000000;
  -- Rows are deleted after a while. The clock refuses what they refused.
  by_clock := ballot <= now_us - (called->>'retentionMs')::bigint * 500;
  IF ballot <= least_us OR by_clock THEN
    RETURN jsonb_build_object('kind', 'stale', 'floor', least_us, 'nowMicros', now_us, 'byClock', by_clock);
  END IF;
  IF ballot > greatest(now_us + 86400000000, newest + 1000000) THEN
    RETURN jsonb_build_object('kind', 'ahead', 'nowMicros', now_us, 'floor', newest);
  END IF;
  IF cardinality(absent) > 0 THEN
    -- A row that an open transaction makes can't be seen, and its number may be higher. The attempt to make it shows that it is there.
    BEGIN
      applied := set_config('lock_timeout', '1', true);
      INSERT INTO redlock_fence (resource, token, holder) SELECT each, ballot, me FROM unnest(absent) AS each ORDER BY each;
      applied := set_config('lock_timeout', patience, true);
    EXCEPTION WHEN lock_not_available OR unique_violation THEN
      RETURN jsonb_build_object('kind', 'held', 'index', 0, 'remainingMs', 20, 'holder', '', 'floor', newest);
    END;
  END IF;
  FOR i IN 0..last_fenced LOOP
    UPDATE redlock_fence SET token = ballot, holder = me WHERE resource = called->'fenced'->>i AND token < ballot;
  END LOOP;
  FOR i IN 0..last LOOP
    UPDATE redlock_lease SET
      previous = CASE WHEN holder = me AND valid_until > clock_timestamp() THEN previous ELSE token END,
      token = ballot, holder = me, valid_until = clock_timestamp() + (called->>'ttlMs')::integer * interval '1 millisecond'
    WHERE resource = called->'locks'->>i;
  END LOOP;
  RETURN '{"kind": "accepted"}';
END
$redlock$;`;

export const EXTEND = `-- Extends a lock on all of its keys, or on none; also after its end, where nobody took it. Never shortens.
CREATE OR REPLACE FUNCTION redlock_v1_extend(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  names constant text[] := ARRAY(SELECT jsonb_array_elements_text(called->'locks'));
  me constant text := called->>'holder';
  ballot constant bigint := called->>'ballot';
  missing integer := 0;
  is_held boolean;
  l redlock_lease;
BEGIN
  FOR i IN 1..cardinality(names) LOOP
    SELECT * INTO l FROM redlock_lease WHERE resource = names[i] FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM redlock_lease WHERE resource = names[i]) THEN RETURN NULL; END IF;
    is_held := l.holder IS NOT NULL AND l.valid_until > clock_timestamp() AND left(l.holder, 1) <> '#';
    IF is_held AND l.holder = me THEN CONTINUE; END IF;
    IF l.resource IS NULL OR is_held OR l.token > ballot THEN
      RETURN jsonb_strip_nulls(jsonb_build_object('kind', 'lost', 'revoked', CASE WHEN is_held AND starts_with(l.holder, 'revoked:') THEN l.holder END));
    END IF;
    missing := missing + 1;
  END LOOP;
  UPDATE redlock_lease SET
    previous = CASE WHEN holder = me AND valid_until > clock_timestamp() AND token >= ballot THEN previous ELSE ballot END,
    token = greatest(token, ballot), holder = me,
    valid_until = greatest(CASE WHEN holder = me THEN valid_until END, clock_timestamp() + (called->>'ttlMs')::integer * interval '1 millisecond')
  WHERE resource = ANY (names);
  RETURN jsonb_build_object('kind', 'extended', 'recreated', missing);
END
$redlock$;`;

export const NEXT = `-- Keeps a free lock for the first process in its line, and notifies it; and the one behind it of when that is over.
CREATE OR REPLACE FUNCTION redlock_v1_next(freed text) RETURNS boolean LANGUAGE plpgsql AS $redlock$
DECLARE
  w redlock_waiter;
  grace integer;
BEGIN
  DELETE FROM redlock_waiter AS each USING (
    SELECT mark FROM redlock_waiter WHERE resource = freed AND waits_until > clock_timestamp() ORDER BY ticket, mark LIMIT 1
  ) AS head WHERE each.resource = freed AND each.mark = head.mark RETURNING each.* INTO w;
  IF NOT FOUND THEN RETURN false; END IF;
  grace := least(w.grace_ms, CASE WHEN w.listens THEN 200 ELSE 500 END);
  UPDATE redlock_lease SET holder = '#' || w.mark, valid_until = clock_timestamp() + grace * interval '1 millisecond' WHERE resource = freed;
  IF w.listens THEN PERFORM pg_notify('redlock_' || w.mark, '0 ' || freed); END IF;
  SELECT * INTO w FROM redlock_waiter WHERE resource = freed AND waits_until > clock_timestamp() ORDER BY ticket, mark LIMIT 1;
  IF w.listens THEN PERFORM pg_notify('redlock_' || w.mark, grace || ' ' || freed); END IF;
  RETURN true;
END
$redlock$;`;

export const RELEASE = `-- Ends an attempt or a held lock where the holder still has it, and hands it to the process that waits longest. An attempt that came to
-- nothing is forgotten, so that it is not in the way of a holder that was late; not where the fence knows of it.
CREATE OR REPLACE FUNCTION redlock_v1_release(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  me constant text := called->>'holder';
  process constant text := left(ltrim(me, '#'), 8);
  was_granted constant boolean := called->'granted';
  forgets constant boolean := NOT was_granted AND NOT (called->'isSole')::boolean;
  leaves constant boolean := was_granted AND (called->'pass')::boolean AND called->'keepMs' IS NULL;
  freed text;
  is_mine boolean;
  is_line boolean;
  deleted integer := 0;
  l redlock_lease;
BEGIN
  FOR freed IN SELECT jsonb_array_elements_text(called->'locks') LOOP
    SELECT * INTO l FROM redlock_lease WHERE resource = freed FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM redlock_lease WHERE resource = freed) THEN RETURN NULL; END IF;
    is_mine := l.valid_until > clock_timestamp() AND (l.holder IN (me, 'revoked:by a newer call, in place of ' || me)
      OR leaves AND l.holder = '#' || process);
    IF called->'keepMs' IS NOT NULL THEN
      UPDATE redlock_lease SET valid_until = least(valid_until, clock_timestamp() + (called->>'keepMs')::integer * interval '1 millisecond')
        WHERE resource = freed AND is_mine;
      CONTINUE;
    END IF;
    IF is_mine THEN
      UPDATE redlock_lease SET holder = NULL, valid_until = clock_timestamp(), token = CASE WHEN forgets THEN previous ELSE token END
        WHERE resource = freed;
      deleted := deleted + (l.holder = me)::integer;
    END IF;
    is_line := EXISTS (SELECT FROM redlock_waiter WHERE resource = freed AND waits_until > clock_timestamp());
    IF leaves AND is_line THEN DELETE FROM redlock_waiter WHERE resource = freed AND mark = process; END IF;
    IF is_mine AND is_line AND (called->'pass')::boolean THEN PERFORM redlock_v1_next(freed);
    ELSIF is_mine AND is_line AND was_granted THEN
      UPDATE redlock_lease SET holder = '#' || process, valid_until = clock_timestamp() + interval '20 milliseconds' WHERE resource = freed;
    END IF;
  END LOOP;
  RETURN jsonb_build_object('kind', 'released', 'deleted', deleted);
END
$redlock$;`;

export const WAIT = `-- Stands in line for a lock. Votes for nothing.
CREATE OR REPLACE FUNCTION redlock_v1_wait(called jsonb) RETURNS jsonb LANGUAGE plpgsql AS $redlock$
DECLARE
  wanted constant text := called->'locks'->>0;
  process constant text := called->>'mark';
  place bigint := called->>'ticket';
  first text;
  is_behind boolean;
  free_in bigint;
  l redlock_lease;
BEGIN
  SELECT * INTO l FROM redlock_lease WHERE resource = wanted FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF place = 0 THEN place := extract(epoch FROM clock_timestamp()) * 1000000; END IF;
  IF l.valid_until <= clock_timestamp() THEN l.holder := NULL; END IF;
  IF l.holder = '#' || process THEN RETURN jsonb_build_object('kind', 'waiting', 'ticket', place, 'freeInMs', -1); END IF;
  SELECT mark INTO first FROM redlock_waiter WHERE resource = wanted AND waits_until > clock_timestamp() ORDER BY ticket, mark LIMIT 1;
  -- The first in line heard when the turn is over. It goes on to look after it where it goes behind others, who did not hear.
  is_behind := left(l.holder, 1) = '#' AND first IS DISTINCT FROM process;
  INSERT INTO redlock_waiter (resource, mark, ticket, grace_ms, listens, waits_until)
    VALUES (wanted, process, place, (called->>'graceMs')::integer, (called->'listens')::boolean,
      clock_timestamp() + (called->>'lifeMs')::integer * interval '1 millisecond')
    ON CONFLICT (resource, mark) DO UPDATE SET ticket = EXCLUDED.ticket, grace_ms = EXCLUDED.grace_ms, listens = EXCLUDED.listens,
      waits_until = greatest(redlock_waiter.waits_until, EXCLUDED.waits_until);
  IF l.holder IS NULL AND redlock_v1_next(wanted) THEN SELECT * INTO l FROM redlock_lease WHERE resource = wanted; END IF;
  -- Its own vote is given back in a moment.
  IF l.holder IS NULL OR left(l.holder, 8) = process THEN free_in := 0;
  ELSIF l.holder = '#' || process THEN free_in := -1;
  ELSE
    free_in := redlock_v1_left(l.valid_until);
    SELECT mark INTO first FROM redlock_waiter WHERE resource = wanted AND waits_until > clock_timestamp() ORDER BY ticket, mark LIMIT 1;
    IF free_in = -1 OR is_behind AND first IS DISTINCT FROM process THEN free_in := 86400000; END IF;
  END IF;
  RETURN jsonb_build_object('kind', 'waiting', 'ticket', place, 'freeInMs', free_in);
END
$redlock$;`;
