import type { RedisFenceClient } from '../drivers/redis-fence.ts';
import {
  floorOf,
  hashSlot,
  keyOfFence,
  FENCE_FUNCTIONS,
  OLD_RECORD_MS,
  shortened,
} from '../drivers/redis-fence-script.ts';
import type { PruneOptions } from '../fence.ts';
import { ageOf, counterRefusal, FIRST_TIME, pruneRefusal } from '../fence-arguments.ts';

/** In one step of Redis, which does nothing else meanwhile. */
const FENCES_PER_SCRIPT = 100;

/**
 * Raises floors and deletes the fences below them, in one step.
 *
 * KEYS: fences, each followed by its floor. ARGV: milliseconds by the clock of this process, for one that is ahead would refuse
 * holders (0: only looks) · the age of what is deleted · how long a writer's record is kept.
 * Returns: how many it deleted · which one has the token of a counter, 0 where none
 *
 * Where a fence is deleted, the floor keeps the time of the newest record that went with it.
 */
const PRUNE_SCRIPT = shortened(`${FENCE_FUNCTIONS}
local floor = string.format('%.0f', math.max(math.min(now, ARGV[1]) - ARGV[2], 0) * 1000)
if #floor < ${FIRST_TIME.length} then floor = '0' end
local kept = now - ARGV[3]

local function isCounter(token)
  return #token < ${FIRST_TIME.length}
end

-- Nothing for what is no fence, and for what stays.
local function oldFence(key)
  if call('TYPE', key).ok ~= 'hash' then return end
  local token, holder = unpack(call('HMGET', key, 't', 'h'))
  if not token or not holder or not string.find(token, '^[1-9]%d*$') then return end
  if not isCounter(token) and not newer(floor, token) then return end
  local last, fields = 0, call('HGETALL', key)
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field == 'd' or string.sub(field, 1, 2) == 'w:' then
      last = math.max(last, tonumber(string.match(fields[i + 1], '^%d+')) or 0)
    elseif field ~= 't' and field ~= 'h' then
      return
    end
  end
  return token, last
end

local function raise(key, last)
  local raised, latest = floorAt(key)
  if newer(floor, raised) then raised = floor end
  latest = math.max(latest, last)
  -- A server without memory left refuses SET, but for a script that has begun to write.
  call('PERSIST', key)
  if latest * 1000 > tonumber(raised) then raised = raised .. ':' .. string.format('%.0f', latest) end
  call('SET', key, raised)
end

local deleted, counter = 0, 0
for i = 1, #KEYS, 2 do
  local token, last = oldFence(KEYS[i])
  if token and isCounter(token) then
    counter = (i + 1) / 2
  elseif token and last < kept then
    raise(KEYS[i + 1], last)
    deleted = deleted + call('DEL', KEYS[i])
  end
end
return {deleted, counter}
`);

/** Without its prefixes; not those of floors. */
type FenceName = string;

type Sweep = (
  fences: readonly FenceName[],
  nowMs: number,
) => Promise<{ readonly deleted: number; readonly counter: FenceName | undefined }>;

/**
 * Looks at all fences first, and then deletes what is old: floors rise where that is.
 *
 * While slots of a cluster move, it leaves what is in them to the next prune.
 *
 * @param recordMs a fence with a later record of a writer stays
 */
export async function pruneRedisFence(
  client: RedisFenceClient,
  prefix: string,
  options: PruneOptions,
  recordMs = OLD_RECORD_MS,
): Promise<number> {
  const ageMs = ageOf(options);
  const subject = `The fence '${prefix}'`;
  const servers = await serversOf(client, prefix, subject);
  const outer = String(client.options?.keyPrefix ?? '') + prefix;
  const sweep = sweeping(client, prefix, [ageMs, recordMs]);
  for await (const fences of listed(servers, outer)) {
    const { counter } = await sweep(fences, 0);
    if (counter !== undefined) throw counterRefusal(subject, keyOfFence(counter)!);
  }
  const nowMs = Date.now();
  let count = 0;
  for await (const fences of listed(servers, outer)) count += (await sweep(fences, nowMs)).deleted;
  return count;
}

type Server = Required<Pick<RedisFenceClient, 'scan'>>;

/** @throws FencedUsageError when they can't be listed */
async function serversOf(
  client: RedisFenceClient,
  prefix: string,
  subject: string,
): Promise<readonly Server[]> {
  // A cluster knows its servers once a command has reached one.
  if (client.nodes) await client.eval('return 1', 1, prefix + floorOf('{x}'));
  const servers = client.nodes?.('master') ?? [client];
  const isServer = (each: Pick<RedisFenceClient, 'scan'>): each is Server =>
    typeof each.scan === 'function';
  if (servers.every(isServer)) return servers;
  throw pruneRefusal(subject, 'its client has no scan. Give redisFence a client of ioredis.');
}

/** Sends the fences together, or by slot: a script on Redis Cluster has one. */
function sweeping(client: RedisFenceClient, prefix: string, limits: readonly number[]): Sweep {
  const run: Sweep = async (fences, nowMs) => {
    const keys = fences.flatMap((name) => [prefix + name, prefix + floorOf(name)]);
    const reply = client.eval(PRUNE_SCRIPT, keys.length, ...keys, nowMs, ...limits);
    const [deleted, counter] = (await reply) as [number, number];
    return { deleted: Number(deleted), counter: fences[counter - 1] };
  };
  const runBySlot: Sweep = async (fences, nowMs) => {
    const slots = new Map<number, FenceName[]>();
    for (const name of fences) {
      const slot = hashSlot(name);
      slots.set(slot, [...(slots.get(slot) ?? []), name]);
    }
    const parts = await Promise.all(
      [...slots.values()].map((each) => run(each, nowMs).catch(unlessSlotMoves)),
    );
    const deleted = parts.reduce((sum, part) => sum + part.deleted, 0);
    return { deleted, counter: parts.find(({ counter }) => counter !== undefined)?.counter };
  };
  let isCluster = client.nodes !== undefined;
  return async (fences, nowMs) => {
    try {
      if (!isCluster) return await run(fences, nowMs);
    } catch (error) {
      // A client for one server of a cluster.
      if (!String(error).includes('CROSSSLOT')) throw error;
      isCluster = true;
    }
    return runBySlot(fences, nowMs);
  };
}

/** The fence and its floor may be on two servers for as long as a slot moves. */
function unlessSlotMoves(error: unknown): Awaited<ReturnType<Sweep>> {
  if (!/TRYAGAIN|Too many Cluster redirections/.test(String(error))) throw error;
  return { deleted: 0, counter: undefined };
}

/** The names of all that is named like a fence. */
async function* listed(
  servers: readonly Server[],
  prefix: string,
): AsyncGenerator<readonly FenceName[]> {
  const pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`;
  for (const server of servers) {
    for (let cursor: string | undefined = '0'; cursor !== undefined;) {
      const page = await server.scan(cursor, 'MATCH', pattern, 'COUNT', FENCES_PER_SCRIPT);
      if (!Array.isArray(page) || !Array.isArray(page[1]))
        throw pruneRefusal(
          `The fence '${prefix}'`,
          'its client is inside MULTI, or is a pipeline. Give redisFence a client that sends each command at once.',
        );
      const [next, names] = page as [string, string[]];
      const fences = names
        .map((name) => name.slice(prefix.length))
        .filter((name) => keyOfFence(name) !== undefined);
      if (fences.length > 0) yield fences;
      cursor = String(next) === '0' ? undefined : String(next);
    }
  }
}
