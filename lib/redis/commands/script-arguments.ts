import type {
  AcquireRequest,
  ExtendRequest,
  InspectRequest,
  JoinRequest,
  ReleaseRequest,
} from '../../core/nodes/lock-node.ts';
import { ACQUIRE, EXTEND, INSPECT, JOIN, RELEASE } from '../scripts/index.ts';
import type { Script } from '../scripts/index.ts';

/** Arguments of EVALSHA: digest, number of keys, keys, arguments. Read only: nodes share them. */
export type ScriptArguments = (string | number)[];

/** One request goes to all nodes in a row: the last one is remembered, so that N nodes build its arguments once. */
function remembered<Request>(
  build: (request: Request) => ScriptArguments,
): (request: Request) => ScriptArguments {
  let last: Request | undefined;
  let lastArguments: ScriptArguments = [];
  return (request) => {
    if (request !== last) {
      lastArguments = build(request);
      last = request;
    }
    return lastArguments;
  };
}

export const acquireArguments = remembered(({ names, ballot, holder, ttlMs }: AcquireRequest) =>
  scriptArguments(ACQUIRE, names.withMarker, paddedBallot(ballot), holder, String(ttlMs)),
);

export const extendArguments = remembered(({ names, ballot, holder, ttlMs }: ExtendRequest) =>
  scriptArguments(EXTEND, names.withMarker, paddedBallot(ballot), holder, String(ttlMs)),
);

export const releaseArguments = remembered(({ names, holder, granted, notify }: ReleaseRequest) =>
  scriptArguments(RELEASE, names.pairs, holder, granted ? '1' : '0', notify ? '1' : '0'),
);

export function joinArguments({
  markerName,
  restartGuardMs,
  floorRetentionMs,
}: JoinRequest): ScriptArguments {
  return scriptArguments(JOIN, [markerName], String(restartGuardMs), String(floorRetentionMs));
}

export function inspectArguments({ names }: InspectRequest): ScriptArguments {
  return scriptArguments(INSPECT, names.pairs);
}

export function scriptArguments(
  script: Script,
  keys: readonly string[],
  ...values: string[]
): ScriptArguments {
  return [script.sha1, keys.length, ...keys, ...values];
}

/** Floors are compared as strings of 16 digits. */
function paddedBallot(ballot: number): string {
  return String(ballot).padStart(16, '0');
}
