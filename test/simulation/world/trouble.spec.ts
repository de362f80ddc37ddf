import { describe, expect, it } from '@jest/globals';
import { NetworkPath } from '../network/network-path.ts';
import { Chance } from './chance.ts';
import { SimulatedServer } from './simulated-server.ts';
import { Trace } from './trace.ts';
import { World } from './world.ts';
import { joinRequest } from '../../support/join-request.ts';

// What the judge takes for a time without trouble: an event about nodes that did not answer is false only then.

describe('a path is in trouble', () => {
  it.each([0, 350])('until a slow message has arrived, which leaves in %i ms', (leavesMs) => {
    const path = new NetworkPath(new World(), new Chance(1), 1, 10);
    path.slowMessages = 0;
    path.latencyMs = 100;
    const delayMs = path.delayMs(leavesMs);
    path.latencyMs = 1;
    expect(delayMs).toBeGreaterThan(30);
    path.delayMs();
    expect(path.wellSinceMs).toBe(leavesMs + delayMs);
  });
});

describe('a server is in trouble', () => {
  it('until the last of its slow replies has left, for which later ones wait', () => {
    const world = new World();
    const settings = { clockRate: 1, clockErrorMs: 0 };
    const server = new SimulatedServer(world, new Trace(world, false), 0, settings);
    server.memory.join(joinRequest());
    server.serviceMs = 100;
    expect(server.worksUntilMs(1)).toBe(100);
    server.serviceMs = 0;
    server.troubled();
    expect(server.worksUntilMs(1)).toBe(0);
    expect(server.wellSinceMs).toBe(100);
  });
});
