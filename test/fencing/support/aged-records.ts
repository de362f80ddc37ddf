import type { Redis } from 'ioredis';

const SCRIPT = `
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  local fields = redis.call('TYPE', name).ok == 'hash' and redis.call('HGETALL', name) or {}
  for i = 1, #fields, 2 do
    if fields[i] == 'd' or string.sub(fields[i], 1, 2) == 'w:' then
      local last, rest = string.match(fields[i + 1], '^(%d+)(.*)$')
      redis.call('HSET', name, fields[i], string.format('%.0f', last - ARGV[2]) .. rest)
    end
  end
end
`;

/** As if all that fences remember of writers had been written so much earlier. */
export async function ageRecords(redis: Redis, ms = 660_000, pattern = 'fence:*'): Promise<void> {
  await redis.eval(SCRIPT, 0, pattern, ms);
}
