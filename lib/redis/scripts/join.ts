import { defineScript } from './script.ts';

/** First on every connection: makes the server remember when it may vote. */
export const JOIN = defineScript(`
-- JOIN: write or confirm the marker, which says from when on this start of the server may vote.
-- KEYS: marker gate
-- ARGV: W (restart guard, ms; 0 = off), R (floor retention, ms)
-- marker: "<voteAfterMs> <runId> <W ms> <R ms>", no TTL.  gate: see ACQUIRE; what it says is from the marker before.
-- Returns {1, ms, start} JOINED, may vote in ms (0 = now); start names this start in votes: 8 characters of its run id
--         {-5, R} DISAGREE: the marker was written with this other R; nothing was written
local call, K, A = redis.call, KEYS, ARGV
local W, R = tonumber(A[1]), A[2]
local runId = string.match(call('INFO', 'server'), 'run_id:(%w+)')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local voteAfter, markerRunId, markerW, markerR =
  string.match(call('GET', K[1]) or '', '^(%d+) (%w+) (%d+) (%d+)$')

local write = false
if markerRunId ~= runId then -- a start that nobody joined yet, or everything was flushed
  voteAfter, write = now + W, true
else
  if markerR ~= R then return {-5, tonumber(markerR)} end
  voteAfter, markerW = tonumber(voteAfter), tonumber(markerW)
  if voteAfter - now > markerW then -- the clock went back: what was promised before is unknown
    W = math.max(W, markerW)
    voteAfter, write = now + W, true
  elseif markerW < W then -- a rolling deploy raised it: as if the larger W had been there from the start
    voteAfter, write = voteAfter - markerW + W, true
  end
end
if write then
  call('DEL', K[2])
  call('SET', K[1], string.format('%.0f %s %.0f %s', voteAfter, runId, W, R))
end
return {1, math.max(0, voteAfter - now), string.sub(runId, 1, 8)}
`);
