import { describe, expect, it } from '@jest/globals';
import type { CampaignEvent } from '../campaign-event.ts';
import {
  answered,
  asked,
  brokenRules,
  cuts,
  judge,
  mark,
  measure,
  nodeReport,
  outage,
  stalled,
} from './written-events.ts';

/** `process-a` asks for 'seat' and gets this. */
function refused(outcome: string, at = 5_000, waitMs = 0): CampaignEvent[] {
  return [asked('a', at - 90, { waitMs }), answered('a', at, { outcome })];
}

describe('a refusal', () => {
  it('is LOCK_BUSY or that of an outage, and nothing else', () => {
    expect(brokenRules(refused('LOCK_BUSY'))).toEqual([]);
    expect(brokenRules([...refused('QUORUM_UNAVAILABLE'), outage(4_900, 5_100)])).toEqual([]);
    const wrong = ['REDLOCK_CLOSED', 'REDLOCK_CONFIG', 'FENCED_USAGE', 'STALE_TOKEN', 'LOCK_LOST'];
    for (const code of [...wrong, 'ECONNREFUSED', '', 'toString', 'undefined']) {
      expect(brokenRules([...refused(code), outage(4_900, 5_100)])).toEqual(['unexpected-refusal']);
    }
  });

  it('comes no more than a node timeout before the end of its wait', () => {
    expect(brokenRules(refused('LOCK_BUSY', 5_000, 190))).toEqual([]);
    expect(brokenRules(refused('LOCK_BUSY', 5_000, 191))).toEqual(['unexpected-refusal']);
  });

  it('is counted by its code, and a grant is none', () => {
    const events = [...refused('LOCK_BUSY'), asked('d', 40), answered('d', 41)];
    expect(measure(events).refusals).toEqual({ LOCK_BUSY: 1 });
  });
});

describe('a caller that is refused because of an outage', () => {
  const kindOf = (...events: CampaignEvent[]): string => {
    const all = [...refused('QUORUM_UNAVAILABLE'), ...events];
    const { outages } = measure(all);
    const [kind] = Object.entries(outages).find(([, count]) => count > 0)!;
    // What happens elsewhere may lie in the guard as well.
    const broken = brokenRules(all).filter((rule) => rule !== 'nothing-happened');
    expect(broken).toEqual(kind === 'none' ? ['false-outage'] : []);
    return kind;
  };

  it('is wrong when a quorum answers and may vote, however long it waited', () => {
    expect(kindOf()).toBe('none');
    for (const waitMs of [0, 90, 190]) {
      const events = refused('QUORUM_UNAVAILABLE', 5_000, waitMs);
      const [violation] = judge(events).violations;
      expect(violation).toMatchObject({ rule: 'false-outage', key: 'seat', process: 'process-a' });
    }
  });

  it('is right when one node came back just as another one went', () => {
    const away = (nodes: number[], from: number, to: number) => outage(from, to, { nodes });
    const back = (at: number) => [away([0, 1], 4_000, at), away([2, 3], 4_900, 6_000)];
    // 50 ms until clients notice, and 100 for a try.
    expect(kindOf(...back(4_749))).toBe('none');
    expect(kindOf(...back(4_751))).toBe('real');
  });

  it('is right when stalls of the server, the network and the caller follow each other', () => {
    const servers = [0, 1, 2].map((node) => stalled(`server-${node}`, 4_942, 4_970));
    const network = stalled('network', 4_928, 4_942);
    const caller = stalled('process-a', 4_970, 4_990);
    for (const short of [servers, [...servers, network], [...servers, caller], [network, caller]])
      expect(kindOf(...short)).toBe('none');
    expect(kindOf(...servers, network, caller)).toBe('real');
  });

  it('is described with what the nodes were for it before', () => {
    const harmed = outage(3_000, 4_500, { nodes: [0] });
    const [violation] = judge([...refused('QUORUM_UNAVAILABLE'), harmed]).violations;
    expect(violation!.message).toMatch(
      /\(node 0 votes -3000\.\.-2000, -450\.\.; node 1 votes -3000\.\.; .*node 4 votes/,
    );
  });

  it('is right up to three node timeouts and a little after the outage', () => {
    expect(kindOf(outage(4_000, 6_000))).toBe('real');
    // 50 ms until clients notice, and 350 for the last try that could have met it.
    expect(kindOf(outage(4_000, 4_601))).toBe('real');
    expect(kindOf(outage(4_000, 4_599))).toBe('none');
    expect(kindOf(outage(5_001, 6_000))).toBe('none');
  });

  it('is right as long after the outage as its process did not run', () => {
    expect(kindOf(outage(3_000, 3_501), stalled('process-a', 3_600, 4_700))).toBe('real');
    expect(kindOf(outage(3_000, 3_499), stalled('process-a', 3_600, 4_700))).toBe('none');
    const stalls = [stalled('process-a', 4_500, 4_640), stalled('process-a', 4_700, 4_900)];
    // It ran for 350 of the last 690 ms.
    expect(kindOf(outage(4_000, 4_261), ...stalls)).toBe('real');
    expect(kindOf(outage(4_000, 4_259), ...stalls)).toBe('none');
  });

  it('is right when no node was asked because its process did not run for half of its time', () => {
    const outcome = 'QUORUM_UNAVAILABLE';
    const notTried = { outcome, message: 'the time was over before a node could be asked' };
    const rules = (from: number, answer: object) =>
      brokenRules([
        asked('a', 4_000, { waitMs: 1_000 }),
        answered('a', 5_000, answer),
        stalled('process-a', from, 4_900),
      ]);
    expect(rules(4_400, notTried)).toEqual([]);
    expect(rules(4_402, notTried)).toEqual(['false-outage']);
    expect(rules(4_400, { outcome })).toEqual(['false-outage']);
  });

  it('is right when it says that its process did not run, and that was so for half of that time', () => {
    const outcome = 'QUORUM_UNAVAILABLE';
    const message = 'No quorum: this process: did not run for 980 ms, and then ...';
    const rules = (from: number, to: number, text: string) =>
      brokenRules([
        asked('a', 4_000, { waitMs: 1_000 }),
        answered('a', 5_000, { outcome, message: text }),
        stalled('process-a', from, to),
      ]);
    expect(rules(4_400, 4_890, message)).toEqual([]);
    expect(rules(4_402, 4_890, message)).toEqual(['false-outage']);
    expect(rules(3_402, 4_488, message)).toContain('false-outage');
    expect(rules(4_400, 4_890, 'No quorum: node: did not run')).toEqual(['false-outage']);
  });

  it('is wrong when only a minority is harmed, or only for others', () => {
    const minority = outage(4_000, 6_000, { nodes: [0, 4] });
    expect(kindOf(minority)).toBe('none');
    expect(kindOf(minority, outage(4_500, 4_800, { nodes: [1] }))).toBe('real');
    expect(kindOf(outage(4_000, 6_000, { workers: ['process-b'] }))).toBe('none');
    expect(kindOf(outage(4_000, 6_000, { workers: ['process-b', 'process-a'] }))).toBe('real');
  });

  it('is right while clients pause before they connect again, up to a second', () => {
    const offline = (from: number, to: number) => outage(from, to, { isOffline: true });
    // 250 to notice and to connect, and as long a pause as the server was away.
    expect(kindOf(offline(3_998, 4_200))).toBe('real');
    expect(kindOf(offline(4_002, 4_200))).toBe('none');
    expect(kindOf(offline(0, 3_402))).toBe('real');
    expect(kindOf(offline(0, 3_398))).toBe('none');
  });

  it('is right for a moment after its connections were cut', () => {
    expect(kindOf(...cuts('process-a', 4_552))).toBe('real');
    expect(kindOf(...cuts('process-a', 4_548))).toBe('none');
    expect(kindOf(...cuts('process-b', 4_900))).toBe('none');
    expect(kindOf(...cuts('process-a', 4_900).slice(1))).toBe('none');
    expect(kindOf(...cuts('process-a', 4_900, { kind: 'hints' }))).toBe('none');
  });

  it('is right while its process comes back to connections that broke while it did not run', () => {
    const pause = stalled('process-a', 3_000, 4_700);
    expect(kindOf(...cuts('process-a', 3_500), pause)).toBe('real');
    expect(kindOf(outage(3_100, 3_200, { isOffline: true }), pause)).toBe('real');
    expect(kindOf(outage(2_800, 2_890), pause)).toBe('none');
    expect(kindOf(...cuts('process-a', 3_500), stalled('process-a', 3_000, 4_400))).toBe('none');
    expect(kindOf(...cuts('process-a', 2_500), pause)).toBe('none');
  });

  it('is right in the guard of a server that was joined late, because its process did not run, and not when another joined it', () => {
    const restart = outage(2_100, 2_300, { isOffline: true, guard: { from: 2_300, to: 3_300 } });
    const pause = stalled('process-a', 2_000, 3_900);
    expect(kindOf(restart, pause)).toBe('real');
    expect(kindOf(restart, stalled('process-a', 2_000, 3_300))).toBe('none');
    const byOther = [0, 1, 2].map((node) => ({
      ...nodeReport(2_800, 'joined'),
      process: 'b',
      node,
    }));
    expect(kindOf(restart, pause, ...byOther)).toBe('none');
    // Killed, and killed again before it had written anything.
    const kills = [2_000, 2_900].map((at, start) =>
      mark(at, { mark: 'worker-killed', worker: `process-a/${start}` }),
    );
    const started = (at: number) => mark(at, { mark: 'worker-started', worker: 'process-a' });
    expect(kindOf(restart, ...kills, started(3_900))).toBe('real');
    expect(kindOf(restart, ...kills, started(3_300))).toBe('none');
    expect(kindOf(restart, ...kills, started(3_900), ...byOther)).toBe('none');
    expect(kindOf(restart, started(3_900))).toBe('none');
  });

  it('is right in the guard of a server that was frozen before anybody had joined it, and not after', () => {
    const restart = outage(2_100, 2_300, { isOffline: true, guard: { from: 2_300, to: 3_300 } });
    const join = [0, 1, 2].map((node) => ({ ...nodeReport(2_450, 'joined'), process: 'b', node }));
    expect(kindOf(restart, outage(2_500, 3_900))).toBe('real');
    expect(kindOf(restart, outage(2_500, 3_500))).toBe('none');
    expect(kindOf(restart, outage(2_500, 3_900), ...join)).toBe('none');
  });

  it('is right while connections that were forgotten are in use, up to 15 s', () => {
    const forgotten = (from: number, at: number) => cuts('process-a', at, { from });
    expect(kindOf(...forgotten(2_000, 4_600))).toBe('real');
    expect(kindOf(...forgotten(2_000, 4_500))).toBe('none');
    const late = (at: number) => [
      ...forgotten(2_000, 18_500),
      ...refused('QUORUM_UNAVAILABLE', at),
    ];
    expect(brokenRules(late(17_400))).toEqual([]);
    expect(brokenRules(late(17_500))).toEqual(['false-outage']);
  });

  it('is right while its process has just started and has not joined the others yet', () => {
    const start = (at: number) => [3, 4].map((node) => ({ ...nodeReport(at, 'joined'), node }));
    expect(kindOf(...start(4_900))).toBe('real');
    expect(kindOf(...start(3_660))).toBe('real');
    expect(kindOf(...start(3_640))).toBe('none');
    expect(kindOf(...start(4_600), nodeReport(4_640, 'joined'))).toBe('none');
    expect(kindOf(...start(3_000), stalled('process-a', 3_100, 4_500))).toBe('real');
    expect(kindOf(...start(3_000), stalled('process-a', 3_100, 4_400))).toBe('none');
  });

  it('is in the guard when servers may not vote yet', () => {
    const guard = { from: 3_000, to: 4_000 };
    expect(kindOf(outage(3_700, 3_701, { guard }))).toBe('guard');
    expect(kindOf(outage(3_400, 3_500, { guard }))).toBe('none');
    expect(kindOf(mark(3_800, { mark: 'started' }))).toBe('guard');
    expect(kindOf(mark(3_600, { mark: 'started' }))).toBe('none');
    expect(kindOf(mark(3_800, { mark: 'started' }), outage(4_500, 4_900))).toBe('real');
  });

  it('is right after a stall of the network or of servers that is half a node timeout long', () => {
    expect(kindOf(stalled('network', 4_700, 4_750))).toBe('real');
    expect(kindOf(stalled('network', 4_700, 4_749))).toBe('none');
    expect(kindOf(stalled('network', 4_700, 4_730), stalled('network', 4_740, 4_765))).toBe('real');
    expect(kindOf(stalled('network', 4_500, 4_600))).toBe('none');
    const servers = [0, 2, 3].map((node) => stalled(`server-${node}`, 4_700, 4_760));
    expect(kindOf(...servers)).toBe('real');
    expect(kindOf(...servers.slice(1))).toBe('none');
  });

  it('is wrong when its own process, the campaign or another worker did not run', () => {
    for (const name of ['process-a', 'process-b', 'campaign', 'resource']) {
      expect(kindOf(stalled(name, 4_600, 4_990))).toBe('none');
    }
  });
});

describe('reports of a node', () => {
  const alive = (from: number, to: number) => [
    asked('a', from, { waitMs: 0 }),
    answered('a', from + 1, { outcome: 'LOCK_BUSY' }),
    asked('b', to, { process: 'process-a', waitMs: 0 }),
    answered('b', to, { process: 'process-a', outcome: 'LOCK_BUSY' }),
  ];
  const rules = (...events: CampaignEvent[]) => brokenRules([...alive(0, 15_000), ...events]);
  const wrong = ['wrong-node-report'];
  const cut = cuts('process-a', 1_000)[0]!;
  const refusing = (durationMs: number) =>
    outage(5_000, 5_000 + durationMs, { nodes: [0], refuses: true });
  const joined = (at: number) => nodeReport(at, 'joined');
  const left = (at: number) => nodeReport(at, 'left');
  const failing = (at: number) => nodeReport(at, 'failing');

  it('follow from each other', () => {
    expect(rules(joined(1), cut, left(1_001), joined(1_100))).toEqual([]);
    expect(rules(joined(1), joined(2))).toEqual(wrong);
    expect(rules(joined(1), cut, left(1_001), left(1_002))).toEqual(wrong);
    expect(rules(cut, left(1_001))).toEqual(wrong);
    const offline = outage(900, 6_000, { isOffline: true });
    const away = [joined(1), offline, left(1_001), failing(3_001)];
    expect(rules(...away, joined(6_100))).toEqual([]);
    expect(rules(...away, left(3_100), joined(6_100))).toEqual(wrong);
    expect(rules(joined(1), refusing(500), failing(5_100), failing(5_200), joined(6_000))).toEqual(
      wrong,
    );
  });

  it('are the same question for each start of each process', () => {
    const other = { ...joined(2), process: 'process-a/1' };
    expect(rules(joined(1), other, { ...other, node: 1 })).toEqual([]);
  });

  it('say that it left only when its connection was cut or its server started again', () => {
    expect(rules(joined(1), left(1_001))).toEqual(wrong);
    expect(rules(joined(1), { ...cut, node: 1 }, left(1_001))).toEqual(wrong);
    expect(rules(joined(1), { ...cut, worker: 'process-b' }, left(1_001))).toEqual(wrong);
    expect(rules(joined(1), outage(900, 2_000), left(1_001))).toEqual(wrong);
    expect(rules(joined(1), outage(900, 2_000, { isOffline: true }), left(1_001))).toEqual([]);
    expect(rules(joined(1), outage(900, 1_000, { rejoins: true }), left(1_001))).toEqual([]);
    const guard = { from: 950, to: 1_950 };
    expect(rules(joined(1), outage(900, 950, { guard }), left(1_001))).toEqual([]);
    expect(rules(joined(1), cut, left(3_001))).toEqual(wrong);
    const pause = stalled('process-a', 900, 2_500);
    expect(rules(joined(1), cut, pause, left(4_499))).toEqual([]);
    expect(rules(joined(1), cut, pause, left(4_501))).toEqual(wrong);
  });

  it('say that it fails only when it does not vote in time', () => {
    expect(rules(joined(1), failing(5_100))).toEqual(wrong);
    expect(rules(joined(1), outage(5_000, 9_000), failing(5_100))).toEqual([]);
    expect(rules(joined(1), outage(5_000, 9_000, { nodes: [1, 2] }), failing(5_100))).toEqual(
      wrong,
    );
    const past = [joined(1), outage(5_000, 6_000), stalled('process-a', 5_900, 8_000)];
    expect(rules(...past, failing(9_999))).toEqual([]);
    expect(rules(...past, failing(10_051))).toEqual(wrong);
  });

  it('say once that it refuses every vote, and that it votes again', () => {
    expect(rules(joined(1), refusing(3_000), failing(5_100), joined(8_100))).toEqual([]);
    expect(rules(joined(1), refusing(3_000))).toEqual(wrong);
    const grantAt = (at: number) => [
      asked('c', at - 1, { process: 'process-a' }),
      answered('c', at, { process: 'process-a', outcome: 'granted' }),
    ];
    const failed = [joined(1), refusing(3_000), failing(5_100)];
    expect(rules(...failed, ...grantAt(8_500))).toEqual(wrong);
    expect(rules(...failed, ...grantAt(8_500), joined(10_001))).toEqual(wrong);
    expect(rules(...failed, ...grantAt(8_500), joined(9_900))).toEqual([]);
    // Without a vote that is accepted nobody knows.
    for (const at of [7_900, 9_100]) expect(rules(...failed, ...grantAt(at))).toEqual([]);
    const next = [outage(9_000, 11_000, { nodes: [0], isOffline: true }), left(9_001)];
    const both = [refusing(3_000), failing(5_100), joined(8_100), ...next, joined(11_100)];
    expect(rules(joined(1), ...both)).toEqual([]);
    const twice = [failing(5_100), joined(5_200), failing(5_300), joined(8_100)];
    expect(rules(joined(1), refusing(3_000), ...twice)).toEqual(wrong);
  });

  it('may leave out what was short, and are not expected of a process that did not run', () => {
    expect(rules(joined(1), refusing(1_900))).toEqual([]);
    const kill = mark(7_000, { mark: 'worker-killed', worker: 'process-a' });
    expect(brokenRules([...alive(0, 6_000), joined(1), refusing(3_000), kill])).toEqual([]);
    expect(brokenRules([...alive(6_000, 15_000), joined(1), refusing(3_000)])).toEqual([]);
  });
});
