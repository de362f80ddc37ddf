import { describe, expect, it } from '@jest/globals';
import { VoteCount } from '../../../../lib/core/voting/vote-count.ts';
import { reply } from '../support/reply.ts';

const sizes = [1, 2, 3, 4, 5, 6, 7];
const quorums = sizes.flatMap((size) =>
  sizes.filter((quorum) => quorum > size / 2 && quorum <= size).map((quorum) => [size, quorum]),
) as [size: number, quorum: number][];

/** Every number of each kind of answer; the order makes no difference. */
function* counts(of: number, kinds: readonly string[]): Generator<string[]> {
  const [kind, ...others] = kinds;
  if (kind === undefined) {
    if (of === 0) yield [];
    return;
  }
  for (let number = 0; number <= of; number += 1)
    for (const rest of counts(of - number, others))
      yield [...Array.from({ length: number }, () => kind), ...rest];
}

/** The votes of nodes in order: `-` has not answered, `(…)` was silent when it was asked. */
function count(texts: readonly string[], quorum: number): VoteCount {
  const votes = new VoteCount(texts.length, quorum);
  for (const [index, text] of texts.entries()) if (text.startsWith('(')) votes.silent(index);
  for (const [index, text] of texts.entries()) {
    const answer = text.replace(/[()]/g, '');
    if (answer !== '-') votes.add(index, reply(answer));
  }
  return votes;
}

const FACTS: Record<string, (votes: VoteCount) => unknown> = {
  ballot: (votes) => votes.decideBallot(votes.expected),
  extension: (votes) => votes.decideExtension(),
  expected: (votes) => votes.expected,
  names: ({ namedHolder: { holder, index } }) => `${holder ?? 'nobody'}@${index}`,
  mostNamed: (votes) => votes.mostNamedIndex,
  freeIn: (votes) => ((votes.pending = votes.liveOpen), votes.freeInMs),
  quarantine: (votes) => votes.shortestQuarantineMs,
  floor: (votes) => votes.highestFloor,
  next: (votes) => votes.nextBallot(100, 0, 0),
  nextAhead: (votes) => votes.nextBallot(100, 40, 60),
  wrote: (votes) => votes.mayHaveWritten.toString(2),
  voted: (votes) => votes.voted,
  contention: (votes) => ((votes.pending = votes.liveOpen), votes.isContention),
  refused: (votes) => votes.isRefused,
  quarantined: (votes) => votes.isQuarantined,
};

// quorum | answers | what they mean. The ballot was 100.
const TABLE: Record<string, string> = {
  'decide a ballot': `
    2 | yes yes -                          | ballot=won expected=1 voted=2
    2 | yes - -                            | ballot=open expected=2
    2 | yes stale:300 -                    | ballot=open
    2 | yes stale:300 held:x:9             | ballot=reballot voted=3
    2 | yes ahead:4:0 held:x:9             | ballot=reballot
    2 | held:x:9 held:x:9 -                | ballot=failed
    2 | refused unknown -                  | ballot=failed voted=0
    2 | unjoined quarantined:5 -           | ballot=failed voted=0
    3 | yes yes -                          | ballot=open`,
  'wait for a silent node only where no quorum is possible without it': `
    2 | yes held:x:9 (-)                   | expected=0 ballot=failed
    2 | yes (-) (-)                        | expected=2 ballot=open
    2 | yes refused (-)                    | expected=1 ballot=open
    2 | yes quarantined:5 (-)              | expected=1 ballot=open
    2 | refused - (-)                      | expected=2 ballot=open
    2 | - - (-)                            | expected=2
    3 | yes yes held:x:9 (-) (-)           | expected=0 ballot=failed
    2 | yes (yes) held:x:9                 | expected=0 ballot=won
    3 | yes:extended yes:extended lost lost (-) | expected=1 extension=unknown
    3 | yes:extended yes:extended - lost (-) | expected=1`,
  'decide an extension': `
    2 | yes:extended yes:extended -        | extension=extended
    2 | lost - -                           | extension=unknown
    2 | lost lost -                        | extension=taken
    2 | lost unjoined quarantined:5        | extension=unknown
    2 | lost refused unknown               | extension=unknown
    4 | lost lost - - -                    | extension=taken
    3 | lost lost - - -                    | extension=unknown`,
  'name one holder and its key': `
    2 | held:x:9 held:x:5 -                | names=x@0
    2 | held:x@1:9 held:x@1:5 yes          | names=x@1
    2 | held:x:9 held:y:5 yes              | names=nobody@-1
    2 | held:x@0:9 held:x@1:5 -            | names=nobody@-1
    2 | held:y:9 held:x:5 held:x:5         | names=x@0
    2 | held:x:9 yes -                     | names=nobody@-1
    3 | held:x:9 held:x:5 yes - -          | names=nobody@-1`,
  'say which key most nodes named': `
    3 | held:x@0:9 held:y@1:9 held:z@1:9 - - | mostNamed=1
    3 | yes held:x@1:9 refused - -         | mostNamed=1
    2 | held:x@0:9 held:y@1:9 -            | mostNamed=0
    2 | yes refused -                      | mostNamed=-1`,
  'say when a quorum of nodes could vote for us': `
    2 | held:x:900 held:x:300 held:x:600   | freeIn=600
    2 | yes held:x:300 held:x:600          | freeIn=300
    2 | stale:7 held:x:300 held:x:600      | freeIn=300
    3 | quarantined:2 held:x:3 held:x:6 (-) held:x:9 | freeIn=6 quarantine=2
    3 | quarantined:2 held:x:3 held:x:6 - held:x:9 | freeIn=3 quarantine=2
    3 | held:x:90 held:x:80 held:x:900 - -       | freeIn=80
    3 | quarantined:9 quarantined:5 - - quarantined:90 | freeIn=5 quarantined=true
    2 | quarantined:8 quarantined:5 yes    | freeIn=5 quarantine=5 quarantined=true
    2 | quarantined:5 held:x:2 held:y:3    | freeIn=3 quarantined=false
    2 | held:x:-1 held:x:-1 -              | freeIn=undefined quarantine=undefined
    2 | yes yes held:x:300                 | freeIn=300`,
  'remember the highest floor': `
    2 | held:x:9:700 stale:500 yes         | floor=700 next=701
    2 | stale:900 held:x:9:700 -           | floor=900 next=901
    2 | yes - refused                      | floor=0`,
  'choose the next ballot': `
    2 | stale:300 stale:500 -              | next=501
    2 | yes stale:50 -                     | next=101
    2 | stale:500:9000:clock - stale:600   | next=9001
    2 | stale:500:9000 - -                 | next=501 nextAhead=541
    2 | stale:500:480 stale:300:420 -      | next=501 nextAhead=541
    2 | stale:500:470 stale:300:420 -      | next=501 nextAhead=531
    2 | stale:500:400 - -                  | next=501 nextAhead=501
    2 | held:x:9:700 yes ahead:40:0        | nextAhead=701
    2 | ahead:4000:4500 yes ahead:4000:0   | next=4501
    2 | ahead:4000:0 stale:95000 -         | next=95001
    2 | ahead:40:0 ahead:60:0 yes          | next=61`,
  'know which nodes may have executed the request': `
    2 | yes - refused                      | wrote=11
    2 | unknown yes:extended held:x:9      | wrote=11
    2 | lost unjoined quarantined:5        | wrote=0
    2 | stale:5 ahead:5:5 (-)              | wrote=100`,
  'tell contention from an outage': `
    2 | held:x:9 held:y:9 refused          | contention=true refused=false
    2 | yes held:x:9 refused               | contention=true
    2 | stale:5 held:x:9 refused           | contention=true
    2 | held:x:9 refused refused           | contention=false refused=true
    2 | held:x:9 refused -                 | contention=true refused=false
    2 | held:x:9 refused (-)               | contention=false refused=false
    2 | quarantined:5 refused -            | contention=false refused=true
    2 | quarantined:5 quarantined:5 -      | refused=true quarantined=true
    2 | unjoined refused yes               | refused=true
    3 | yes yes refused held:x:9 refused   | contention=true refused=false`,
};

describe.each(Object.entries(TABLE))('votes %s', (_, rows) => {
  it.each(rows.split('\n').flatMap((row) => row.trim() || []))('%s', (row) => {
    const [quorum, answers, facts] = row.split('|').map((cell) => cell.trim());
    const texts = answers!.split(/\s+/);
    const expected = facts!.split(' ').map((fact) => fact.split('='));
    const seen = expected.map(([name]) => {
      return [name, String(FACTS[name!]!(count(texts, Number(quorum))))];
    });
    expect(seen).toEqual(expected);
  });
});

describe.each(quorums)('of %i nodes with quorum %i', (size, quorum) => {
  const answers = ['yes', 'stale:1', 'held:x:9'];

  it('every vote is decided as soon as no answer can change it, and never before', () => {
    const wrong: unknown[] = [];
    for (let open = 0; open <= size; open += 1) {
      const fillings = [...counts(open, answers)];
      for (const given of counts(size - open, answers)) {
        const outcomes = new Set(
          fillings.map((rest) => count([...given, ...rest], quorum).decideBallot(0)),
        );
        const votes = count([...given, ...fillings[0]!.map(() => '-')], quorum);
        const decision = votes.decideBallot(votes.expected);
        const certain = outcomes.size === 1 ? [...outcomes][0] : 'open';
        if (decision !== certain || outcomes.has('open')) wrong.push([given, open, decision]);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('silent nodes are expected exactly where the others can be no quorum', () => {
    const wrong: unknown[] = [];
    for (const texts of counts(size, ['yes', 'held:x:9', 'refused', '-', '(-)'])) {
      const number = (...kinds: string[]) => texts.filter((text) => kinds.includes(text)).length;
      const withoutSilent = number('yes', 'held:x:9', '-');
      const expected = number('-') + (withoutSilent < quorum ? number('(-)') : 0);
      const seen = count(texts, quorum).expected;
      if (seen !== expected) wrong.push([texts, seen]);
    }
    expect(wrong).toEqual([]);
  });
});
