import { drawStallMs } from './client-process.ts';
import type { ClientProcess } from './client-process.ts';
import type { PlannedFault } from '../families/plan-faults.ts';
import type { RunContext } from './run-context.ts';
import type { SimulatedNode } from '../network/simulated-node.ts';
import type { SimulatedServer } from './simulated-server.ts';

/** The client processes of a run, which start again after a crash. */
export interface Fleet {
  /** The present start of each client. */
  readonly clients: readonly ClientProcess[];
  /** Starts the client again. */
  restart(index: number): void;
}

/** Lets a fault happen. Returns what ends it, where it lasts; called once, after `lastsMs` or when the run heals. */
export function applyFault(
  run: RunContext,
  fleet: Fleet,
  fault: PlannedFault,
  number: number,
): (() => void) | undefined {
  run.trace.add('***', `fault ${number}: ${JSON.stringify(fault)}`);
  switch (fault.kind) {
    case 'hold':
      return onPaths(fleet, fault, ({ ends: { path } }) => {
        const { direction } = fault;
        const held = direction === 'both' ? (['requests', 'replies'] as const) : [direction];
        for (const one of held) path.hold(one);
        return () => held.forEach((one) => path.pass(one));
      });
    case 'reset':
      return onPaths(fleet, fault, (node) => {
        node.lateByMs = fault.lateByMs;
        node.breakOff('reset by the network');
        node.lateByMs = 0;
      });
    case 'duplicate':
      return onPaths(fleet, fault, (node) => node.duplicate(fault.afterMs));
    case 'refuse':
      return onPaths(fleet, fault, (node) => {
        node.ends.path.refused = true;
        node.breakOff('refused');
        return () => (node.ends.path.refused = false);
      });
    case 'slow':
      return onPaths(fleet, fault, ({ ends: { path } }) => {
        path.latencyMs = fault.latencyMs;
        return () => (path.latencyMs = run.plan.latencyMs);
      });
    case 'garble':
      return onPaths(fleet, fault, ({ ends: { path } }) => {
        path.garbledReplies = fault.share;
        path.lostHints = fault.share;
        return () => (path.garbledReplies = path.lostHints = 0);
      });
    case 'stall':
      for (const index of fault.clients) {
        fleet.clients[index]?.process.stall(drawStallMs(run.plan.ttlMs, run.chance));
      }
      return undefined;
    case 'forget':
      return onPaths(fleet, fault, (node) => node.forget(fault.what));
    case 'suspend':
      for (const index of fault.clients) fleet.clients[index]?.suspend(fault.forMs);
      return undefined;
    case 'block':
      for (const index of fault.clients)
        fleet.clients[index]?.blockAfter(fault.afterCommands, fault.forMs);
      return undefined;
    case 'crowd':
      for (const index of fault.clients)
        fleet.clients[index]?.crowd(`crowd-${number}-${index}`, fault.waitsMs, fault.forMs);
      return undefined;
    case 'burst':
      for (const index of fault.clients)
        fleet.clients[index]?.burst(fault.keys, `burst-${number}-${index}`, fault.waitMs);
      return undefined;
    case 'crash':
      return all(fault.clients, (index) => {
        fleet.clients[index]?.crashAfter(fault.afterSends);
        return () => fleet.restart(index);
      });
    case 'wall-jump':
      for (const index of fault.clients) {
        const client = fleet.clients[index];
        if (client) client.process.wallErrorMs += fault.byMs;
      }
      return undefined;
    case 'forge-hint':
      for (const index of fault.clients) {
        for (const node of fleet.clients[index]?.nodes ?? []) {
          node.forgeTurn(`lock:${fault.key}`);
        }
      }
      return undefined;
    case 'swap':
      applyToServers(run, fault);
      for (const { nodes } of fleet.clients)
        for (const server of fault.servers) nodes[server]?.breakTurns();
      return undefined;
    default:
      return applyToServers(run, fault);
  }
}

function applyToServers(run: RunContext, fault: PlannedFault): (() => void) | undefined {
  if (!('servers' in fault)) return undefined;
  return all(fault.servers, (index) => {
    const server = run.servers[index]!;
    const end = applyToServer(server, fault);
    server.troubled();
    return () => {
      end?.();
      server.troubled();
    };
  });
}

function applyToServer(server: SimulatedServer, fault: PlannedFault): (() => void) | undefined {
  switch (fault.kind) {
    case 'freeze':
      server.freeze();
      return () => server.resume();
    case 'slow-server':
      server.serviceMs = fault.serviceMs;
      return () => (server.serviceMs = 0);
    case 'error':
      server.error = fault.reply;
      return () => (server.error = undefined);
    case 'restart':
      server.kill();
      return () => {
        if (!server.running) server.restart(fault.data);
      };
    case 'flush':
      if (server.running) server.redis.data.clear();
      return undefined;
    case 'swap':
      server.swap(fault.dumpAgeMs > 0);
      return undefined;
    case 'forget-scripts':
      server.redis.forgetScripts();
      return undefined;
    case 'evict':
      server.redis.data.call('DEL', `lock:${fault.key}`);
      return undefined;
    case 'server-jump':
      server.clockErrorMs += fault.byMs;
      return undefined;
    default:
      return undefined;
  }
}

function onPaths(
  fleet: Fleet,
  {
    clients,
    servers,
  }: { readonly clients: readonly number[]; readonly servers: readonly number[] },
  apply: (node: SimulatedNode) => (() => unknown) | void,
): () => void {
  return all(clients, (client) =>
    all(servers, (server) => {
      const node = fleet.clients[client]?.nodes[server];
      if (node === undefined) return undefined;
      const end = apply(node);
      node.ends.path.troubled();
      return () => {
        end?.();
        node.ends.path.troubled();
      };
    }),
  );
}

function all(
  indices: readonly number[],
  apply: (index: number) => (() => unknown) | void,
): () => void {
  const ends = indices.map(apply);
  return () => {
    for (const end of ends) end?.();
  };
}
