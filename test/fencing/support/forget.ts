/** Deletions that a clock an hour ahead would make. */
export const FORGET = {
  postgresql: 'DELETE FROM redlock_fence WHERE token < CAST($1 AS bigint)',
  questionMark: 'DELETE FROM redlock_fence WHERE token < CAST(? AS DECIMAL(20))',
} as const;

/** Counterpart in Redis, where fences expire. @returns how many */
export const EXPIRE = `
  local count = 0
  for _, name in ipairs(redis.call('KEYS', 'fence:*')) do
    local token = redis.call('HGET', name, 't')
    local isOld = #token < #ARGV[1] or (#token == #ARGV[1] and token < ARGV[1])
    if isOld then count = count + redis.call('DEL', name) end
  end
  return count`;
