import { FencedUsageError } from '../core/errors.ts';
import { FencingToken } from '../core/fencing-token.ts';

/** What the token of a `coordination.k8s.io/v1` Lease is made of. */
export interface KubernetesLease {
  /** Says which object it is: a Lease that was deleted begins to count again. */
  readonly metadata?: {
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
  };
  /** Says who holds it; `leaseTransitions` is absent before the first change. */
  readonly spec?: { readonly holderIdentity?: string; readonly leaseTransitions?: number };
}

/**
 * The fencing token of the leader by a Lease of Kubernetes: the count of its holders. For a fence without `maxAge`.
 *
 * @param lease as the API server answered, read or updated after this process became the leader
 * @param identity of this process, which no other one has ever had: a restarted container keeps the name of its pod
 * @throws FencedUsageError when this process is not the holder
 *
 * @example
 * ```ts
 * async function close(lease: KubernetesLease, identity: string) {
 *   await fence.transaction(leaseToken(lease, identity), work);
 * }
 * ```
 */
export function leaseToken({ metadata, spec }: KubernetesLease, identity: string): FencingToken {
  const { namespace, name, uid } = metadata ?? {};
  const holder = spec?.holderIdentity;
  if (!uid)
    throw new FencedUsageError(
      `The Lease ${namespace}/${name} has no metadata.uid: pass it as the API server answered. A Lease that was deleted counts from the beginning, and only that tells it apart.`,
    );
  if (holder !== identity || !identity)
    throw new FencedUsageError(
      `The Lease ${namespace}/${name} is held by ${holder || 'nobody'}, not by ${identity}: this process is not the leader.`,
    );
  return new FencingToken(
    (spec?.leaseTransitions ?? 0) + 1,
    [`lease/${namespace}/${name}/${uid}`],
    identity,
  );
}

/**
 * The fencing token of a lock or an election in etcd: the revision at which its holder created the key. For a fence without `maxAge`.
 *
 * @param resource what is locked, the same text for all holders; the key of an election is another one for each candidate
 * @param key that this process created, with numbers as etcd has them: as text
 * @throws RangeError when its revision is none
 *
 * @example
 * ```ts
 * async function close(key: { create_revision: string; lease: string }) {
 *   await fence.transaction(revisionToken('nightly', key), work);
 * }
 * ```
 */
export function revisionToken(
  resource: string,
  { create_revision, lease }: Readonly<Record<'create_revision' | 'lease', string | number>>,
): FencingToken {
  return new FencingToken(Number(create_revision), [`etcd/${resource}`], String(lease));
}
