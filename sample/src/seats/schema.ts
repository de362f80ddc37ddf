import type { Fence } from 'nestjs-fenced-lock/fencing';

/**
 * The tables of the sample, in a schema of their own that is recreated at every start.
 *
 * `ticket` has no unique constraint on the seat on purpose. One would save this one table, but no constraint protects the payment
 * provider, a counter, or a decision made on what was read before: the fence protects whatever the holder writes.
 */
export function schema(fence: Fence): string {
  return `
DROP SCHEMA IF EXISTS seat_sample CASCADE;
CREATE SCHEMA seat_sample;
${fence.ddl()}
-- Who sits where.
CREATE TABLE seat_sample.seat (id text PRIMARY KEY, customer text);
-- Every ticket ever issued.
CREATE TABLE seat_sample.ticket (
  position bigserial PRIMARY KEY, seat text NOT NULL, customer text NOT NULL, token bigint NOT NULL);
-- Every change of a token in the fence: the holders of each seat, in the order in which they reached the database.
CREATE TABLE seat_sample.ledger (
  position bigserial PRIMARY KEY, seat text NOT NULL, token bigint NOT NULL, holder text NOT NULL);
CREATE FUNCTION seat_sample.record_holder() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO seat_sample.ledger (seat, token, holder)
  VALUES (substr(NEW.resource, length('seat:') + 1), NEW.token, NEW.holder);
  RETURN NULL;
END $$;
CREATE TRIGGER first_holder AFTER INSERT ON seat_sample.fence
  FOR EACH ROW EXECUTE FUNCTION seat_sample.record_holder();
CREATE TRIGGER next_holder AFTER UPDATE ON seat_sample.fence
  FOR EACH ROW WHEN ((OLD.token, OLD.holder) IS DISTINCT FROM (NEW.token, NEW.holder))
  EXECUTE FUNCTION seat_sample.record_holder();
-- The books of the payment provider: another company, which our transactions can't roll back.
CREATE TABLE seat_sample.payment (
  id bigserial PRIMARY KEY, seat text NOT NULL, customer text NOT NULL, refunded boolean NOT NULL DEFAULT false);
`;
}
