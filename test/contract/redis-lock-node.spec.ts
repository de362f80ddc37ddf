import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { contractChecks, lockNodeContract } from './lock-node.contract.ts';
import { createRedisHarness } from './redis-harness.ts';

const servers = useRedisServers(1, { appendonly: true });
const checks = contractChecks.filter(({ needsClock }) => !needsClock);

lockNodeContract('Redis', checks, () => createRedisHarness(servers[0]!));
