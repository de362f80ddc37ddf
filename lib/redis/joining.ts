import { createHash, randomBytes } from 'node:crypto';
import type { JoinReply, JoinRequest } from '../core/nodes/lock-node.ts';
import { notSent } from './commands/node-failure.ts';
import { parseJoinReply } from './commands/replies.ts';
import type { VotingScripts } from './commands/script-command.ts';
import type { RedisConnection } from './connection/redis-connection.ts';
import { BATCH } from './batch.ts';
import { ACQUIRE, defineScript, EXTEND, gateName, RELEASE, WAIT, type Script } from './scripts.ts';

const MOVED = 'another server answers at this address by now';

/** Goes first on every connection: makes the server remember when it may vote, and who joined it. */
export const JOIN = defineScript(`
-- JOIN: write or confirm the marker, which says from when on this start of the server may vote.
-- KEYS: marker gate configurations
-- ARGV: W (restart guard, ms; 0 = off), R (floor retention, ms), lowest, highest (protocol versions), configuration, texts, salt,
--   known (8 characters of the run id of the server that was joined before; empty = none),
--   [reign]: given where votes are for one reign of the server, and not for all of one start
-- configuration: "quorum node1 node2 ..." of the client.  texts: 8 characters for the voting scripts of its release, other ones
--   with reign.
-- salt: 24 characters, of those of them that it has loaded; empty = none.
-- marker: "<lowest>-<highest> <voteAfterMs> <reign> <W ms> <R ms> <salts> ...", no TTL; later versions keep the first word, and
--   may add words.  salts: "-", then "<texts>=<salt>," for the latest four releases.  reign: run id and replication id, which is another one each time a replica becomes the primary.  gate: see ACQUIRE; what it says is from the marker before.
-- configurations: a line "<ms> <configuration>" for each of the latest 16 that joined within a day, oldest first.
-- Returns {1, ms, start, salt, others} JOINED, may vote in ms (0 = now); start names this start in votes: 8 characters of its run
--           id, and with reign its replication id; salt is that of voting scripts loaded since this start, or empty; others are
--           the other configurations
--         {1, ms, start, salt, others, up} the same from another server than the known one, which has given locks for up ms at least
--         {-5, lowest, highest, R} DISAGREE: the marker is of other protocol versions or another R; nothing was written
local call, K, A = redis.call, KEYS, ARGV
local W, R = tonumber(A[1]), A[2]
local server, replication = call('INFO', 'server'), call('INFO', 'replication')
local reign = string.match(server, 'run_id:(%w+)') .. (string.match(replication, 'master_replid:(%w+)') or '')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local before = call('GET', K[1]) or ''
local lowest, highest, words = string.match(before, '^(%d+)-(%d+) (.*)$')
local voteAfter, markerReign, markerW, markerR, salts, more = string.match(words or '', '^(%d+) (%w+) (%d+) (%d+) (%S+)(.*)$')
local isOurs = markerReign == reign -- otherwise nobody joined this start yet, it was a replica, or everything was flushed
local isDisjoint = lowest and (tonumber(lowest) > tonumber(A[4]) or tonumber(highest) < tonumber(A[3]))
if isDisjoint or isOurs and markerR ~= R then
  return {-5, tonumber(lowest), tonumber(highest), tonumber(markerR) or 0}
end

if isOurs then
  voteAfter, markerW = tonumber(voteAfter), tonumber(markerW)
  W = math.max(W, markerW)
  if voteAfter - now > markerW then voteAfter = now + W -- the clock went back: what was promised before is unknown
  else voteAfter = voteAfter - markerW + W end -- a rolling deploy raised it: as if the larger W had been there from the start
else
  -- Scripts outlive all but the start of the server.
  if string.sub(markerReign or '', 1, 40) ~= string.sub(reign, 1, 40) then salts = '-' end
  voteAfter, more = now + W, ''
end
if A[7] ~= '' then
  salts = '-' .. string.sub(A[6] .. '=' .. A[7] .. ',' .. string.gsub(string.sub(salts, 2), A[6] .. '=%w+,', ''), 1, 136)
end
local marker = string.format('%s-%s %.0f %s %.0f %s %s%s', A[3], A[4], voteAfter, reign, W, R, salts, more)
if marker ~= before then
  call('SET', K[2], '') -- before DEL: without memory a server refuses a first write, and none after one that it took
  call('DEL', K[2])
  call('SET', K[1], marker)
end

local lines, others = {}, {}
for ms, configuration in string.gmatch(call('GET', K[3]) or '', '(%d+) ([^\\n]+)') do
  if configuration ~= A[5] and now - ms < 86400000 then
    lines[#lines + 1], others[#others + 1] = ms .. ' ' .. configuration, configuration
  end
end
if #lines > 15 then table.remove(lines, 1) end
lines[#lines + 1] = string.format('%.0f', now) .. ' ' .. A[5]
local written = redis.pcall('SET', K[3], table.concat(lines, '\\n'), 'PX', 86400000)
-- A replica joins nobody; a server without memory does, since it still extends.
if written.err and string.find(written.err, 'READONLY', 1, true) then return written end
local start = string.sub(reign, 1, 8) .. (A[9] and string.sub(reign, 41) or '')
local joined = {1, math.max(0, voteAfter - now), start, string.match(salts, A[6] .. '=(%w+)') or '', others}
if A[8] ~= '' and A[8] ~= string.sub(reign, 1, 8) then
  local up = isOurs and now - (voteAfter - W) or 0 -- since this marker was new
  if string.find(replication, 'master_replid2:0+\\r') then -- it never was a replica, whose uptime says nothing; in whole seconds
    up = math.max(up, (string.match(server, 'uptime_in_seconds:(%d+)') or 1) * 1000 - 1000)
  end
  if up > 0 then joined[6] = up end
end
return joined
`);

/** How many characters of the run id begin the name of a start; those of the replication id follow. */
const RUN_ID_LENGTH = 8;

/** Names the voting scripts of this release, and those with `failover`: nobody takes the others for their own. */
const [TEXTS, TEXTS_OF_REIGN] = [[], ['reign']].map((more) =>
  createHash('sha1')
    .update([...[ACQUIRE, EXTEND, BATCH].map(({ sha1 }) => sha1), ...more].join())
    .digest('hex')
    .slice(0, 8),
) as [string, string];

/**
 * The script for one start of one server. Without arguments it answers whether the server that runs it is that one.
 *
 * @param start with a replication id: for one reign of that server, from when it became the primary until it is a replica
 * @param salt a new one for each time the text is loaded: so one server at most knows its digest
 */
export function salted({ text }: Script, start: string, salt: string): Script {
  const [runId, replicationId] = [start.slice(0, RUN_ID_LENGTH), start.slice(RUN_ID_LENGTH)];
  // A server that is made a replica keeps its id until it has found its primary, whose id it takes; a promotion gives it a new one.
  const sameReign = `local replication = redis.call('INFO', 'replication')
if not (string.find(replication, 'role:master', 1, true) and string.find(replication, 'master_replid:${replicationId}', 1, true))
then start = '' end
`;
  return defineScript(`
local start = '${runId}' -- ${salt}
${replicationId === '' ? '' : sameReign}if not ARGV[1] then return start == string.sub(string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), 1, 8) and 1 or 0 end
${text}`);
}

/** Asks the server at the other end to join, and resolves to its answer. */
export function askToJoin(
  connection: RedisConnection,
  request: JoinRequest,
  { salt = '', known = '' } = {},
): Promise<unknown> {
  const { markerName, restartGuardMs, floorRetentionMs, versions, configuration, failover } =
    request;
  const names = [markerName, gateName(markerName), `${markerName}:configurations`];
  const texts = failover ? [TEXTS_OF_REIGN, salt, known, 'reign'] : [TEXTS, salt, known];
  const values = [restartGuardMs, floorRetentionMs, ...versions, configuration, ...texts];
  return connection.ask('eval', JOIN.text, 3, ...names, ...values);
}

/**
 * Joins by the text of the script, then finds voting scripts that this very server has, or loads some. A digest is loaded once, by
 * one command, and scripts do not spread: so the server that answers to it here is the only one that ever will, also where
 * something between moves the connection to another server.
 *
 * @param latest of the join before, on whichever connection to this node
 * @param isFollowed another server than that is no surprise, however long it has been up
 */
export async function joinServer(
  connection: RedisConnection,
  request: JoinRequest,
  latest: VotingScripts | undefined,
  isFollowed: boolean,
): Promise<JoinReply> {
  const runId = (of: string) => of.slice(0, RUN_ID_LENGTH);
  const known = isFollowed ? '' : runId(latest?.start ?? '');
  const joined = parseJoinReply(await askToJoin(connection, request, { known }));
  if (joined.kind !== 'joined') return joined;
  const { start, salt, ...reply } = joined;
  const isMoved =
    connection.voting !== undefined && runId(connection.voting.start) !== runId(start);
  const found = salt === '' ? undefined : votingScripts(start, salt);
  const own = latest?.start === start && latest.a !== found?.a ? latest : undefined;
  const took = (voting: VotingScripts): JoinReply => {
    connection.voting = voting;
    return isMoved ? { ...reply, isMoved } : reply;
  };
  for (const voting of [found, own]) {
    if (voting === undefined) continue;
    if (await knows(connection, voting)) return took(voting);
    // When a server does not know them it may be another one, and the one that was joined may come back with a new marker.
    const again = parseJoinReply(await askToJoin(connection, request));
    if (again.kind !== 'joined') return again;
    if (again.start !== start || again.quarantineMs > reply.quarantineMs) return notSent(MOVED);
  }
  const voting = await loaded(connection, request, start);
  return voting === undefined ? notSent(MOVED) : took(voting);
}

/** Loads new scripts; a second join makes them those of the server, for other processes to find. Undefined where another one answers by now. */
async function loaded(
  connection: RedisConnection,
  request: JoinRequest,
  start: string,
): Promise<VotingScripts | undefined> {
  const salt = randomBytes(12).toString('hex');
  const voting = votingScripts(start, salt);
  const load = ({ text }: Script) => connection.ask('script', 'LOAD', text);
  await Promise.all([...voting.scripts, RELEASE, WAIT].map(load));
  if (!(await knows(connection, voting))) return undefined;
  const again = parseJoinReply(await askToJoin(connection, request, { salt }));
  return again.kind === 'joined' && again.start === start ? voting : undefined;
}

function votingScripts(start: string, salt: string): VotingScripts {
  const scripts = [ACQUIRE, EXTEND, BATCH].map((script) => salted(script, start, salt));
  const [a = '', e = '', batch = ''] = scripts.map(({ sha1 }) => sha1);
  return { start, scripts, a, e, batch };
}

/** Asks whether the server has all of them, and is the one that they are for. */
async function knows(connection: RedisConnection, { scripts }: VotingScripts): Promise<boolean> {
  const ask = ({ sha1 }: Script) => connection.ask('evalsha', sha1, 0);
  const answers = await Promise.all(scripts.map((script) => ask(script).catch(() => 0)));
  return answers.every((answer) => answer === 1);
}
