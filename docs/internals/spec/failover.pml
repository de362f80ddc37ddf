/*
 * The protocol of docs/internals/protocol.md on one key and one node that fails over: a primary, and a replica that is promoted.
 * What the option `failover` is for: the wait of a promoted server, W = ttl + lag + 2 s.
 *
 * Time is that of fenced-lock-in-time.pml; a tick is a second. Replication is asynchronous: the replica has any state that the
 * primary had until the link between them is cut. It may be promoted at any time after the cut, while the old primary lives and
 * serves whoever still talks to it. Each of the two that is a primary may execute a request that was sent: at any time, more than
 * once, in any order, or never. So a crash is an old primary that does nothing any more.
 *
 * min-replicas: the old primary looks about once a second whether its replica was heard of in the last LAG seconds, which it
 * counts as whole ones, so that they may be nearly LAG + 1. Where it was not, it takes no more writes.
 *
 * Properties, as assertions where they could break: MUTUAL EXCLUSION, UNIQUENESS, MONOTONICITY, as in fenced-lock-in-time.pml.
 *
 * Premises: the last word of the replica is not under way for longer than the validity is shortened for drift (here: 0), and no
 * ballot is further ahead of the time than GUARD / 2 - LAG - 2; or (EQUAL_CLOCKS) all clients have the right time.
 *
 * Features: EXTEND; CRASH (the old primary ends at the cut). Sizes: END (at most 14), TTL, LAG, GUARD in ticks;
 * LATEST_CUT (the link is cut by then).
 * Each of these breaks the rule or the premise it names, and the checker finds a history that breaks a property:
 *   NO_GUARD          a promoted server votes as soon as somebody joined it
 *   SHORT_GUARD       … after a tick less than W
 *   JOINED_BEFORE     … until somebody joins it, for clients that joined it when it was the primary before, and have kept their
 *                     connections since
 *   NO_MIN_REPLICAS   the old primary takes writes without end
 *   EXTEND_AT_ONCE    a promoted server extends a lock whose validity may end while the old primary still takes writes: there
 *                     the same lock, which nobody extends, is over then
 *   LATE_WORD         the last word of the replica reaches the old primary a tick after the cut
 *   FAR_BALLOT        a ballot is a tick further ahead
 */
#ifndef END
#define END 8
#endif
#ifndef LATEST_CUT
#define LATEST_CUT 2
#endif
#ifndef TTL
#define TTL 3
#endif
#ifndef LAG
#define LAG 1
#endif
#ifndef GUARD
#define GUARD (TTL + LAG + 2)
#endif
#ifdef NO_GUARD
#define WAIT_OF_GUARD 0
#elif defined(SHORT_GUARD)
#define WAIT_OF_GUARD (GUARD - 1)
#else
#define WAIT_OF_GUARD GUARD
#endif
#ifdef LATE_WORD
#define UNDER_WAY 1
#else
#define UNDER_WAY 0
#endif
#ifdef EQUAL_CLOCKS
#define AHEAD 0
#define LOWEST (now)
#else
#ifdef CRASH
#define AHEAD_IN_TIME (GUARD / 2)
#else
#define AHEAD_IN_TIME (GUARD / 2 - LAG - 2)
#endif
#ifdef FAR_BALLOT
#define AHEAD (AHEAD_IN_TIME + 1)
#else
#define AHEAD AHEAD_IN_TIME
#endif
#define LOWEST 1
#endif
#define ATTEMPTS 2
#define BIT(x) (1 << (x))
#define HOLDER(a) ((a) + 1)
#define MAX(x, y) ((x) > (y) -> (x) : (y))
#define CEILING (END + AHEAD)

typedef Server {
  byte holder; /* L: an attempt; 0 = free */
  byte lockEnds;
  byte floor; /* F; 0 = none */
  byte prev;
  byte voteAfter
};

typedef Attempt {
  byte ballot;        /* 0 = not begun */
  byte newestAtStart; /* the newest complete token when it began */
  byte askedAt;       /* when its vote, or its latest extension, left */
  byte validUntil;    /* 0 = not granted, or given up */
  bit isGranted;
  bit isExtending;
  bit isReleased;
  bit isAnswered /* yes, by either server, to the vote or the latest extension */
};

Server servers[2]; /* the old primary, and the replica */
Attempt attempts[ATTEMPTS];
byte now = 1;
byte newest;   /* the newest token whose grant is complete */
short granted; /* bit T: token T was granted */
byte cutAt;    /* 0 = the link is up */
bit isPromoted, isJoined;
/* Of the old primary, after the cut: when it heard of its replica, what it found at its latest look, and whether it has looked
 * within this tick. */
byte heardAt;
bit takesNoWrites, hasLooked;

#define IS_OPEN(a) (attempts[a].ballot != 0 && !attempts[a].isGranted && !attempts[a].isReleased)
#ifdef CRASH
#define TAKES_WRITES(n) (n == 0 -> cutAt == 0 : isPromoted)
#else
#define TAKES_WRITES(n) (n == 0 -> !takesNoWrites : isPromoted)
#endif

/* ---- On a server: one atomic script each -------------------------------------------------------------------------- */

#ifdef JOINED_BEFORE
#define MAY_VOTE(n) (n == 0 || now >= servers[n].voteAfter)
#else
#define MAY_VOTE(n) (n == 0 || (isJoined && now >= servers[n].voteAfter))
#endif
#define GUARD_LIMIT(n) (servers[n].voteAfter > GUARD / 2 -> servers[n].voteAfter - GUARD / 2 : 0)
#define IS_STALE(n, p) (p <= servers[n].floor || p <= GUARD_LIMIT(n))
#ifdef EXTEND_AT_ONCE
#define MAY_EXTEND(n) true
#else
/* The old primary takes no more writes since a ttl before the end of the guard, and has the lock beyond its validity. */
#define MAY_EXTEND(n) (n == 0 || (isJoined && attempts[a].validUntil + TTL > servers[n].voteAfter))
#endif

inline ACQUIRE() {
  if
  :: MAY_VOTE(n) && servers[n].holder == HOLDER(a) && attempts[a].ballot == servers[n].floor ->
    attempts[a].isAnswered = attempts[a].isAnswered || IS_OPEN(a) /* delivered twice */
  :: MAY_VOTE(n) && servers[n].holder == 0 && !IS_STALE(n, attempts[a].ballot) ->
    servers[n].prev = servers[n].floor;
    servers[n].floor = attempts[a].ballot;
    servers[n].holder = HOLDER(a);
    servers[n].lockEnds = now + TTL;
    attempts[a].isAnswered = attempts[a].isAnswered || IS_OPEN(a)
  :: else /* HELD, STALE, UNJOINED or QUARANTINED: nothing is written */
  fi
}

inline EXTEND_LOCK() {
  if
  :: (servers[n].holder == HOLDER(a) && MAY_EXTEND(n)) ||
     (servers[n].holder == 0 && servers[n].floor <= attempts[a].ballot && MAY_VOTE(n)) ->
    servers[n].floor = MAX(servers[n].floor, attempts[a].ballot);
    servers[n].prev = servers[n].floor;
    servers[n].lockEnds = now + TTL;
    servers[n].holder = HOLDER(a);
    attempts[a].isAnswered = 1
  :: else /* LOST, or QUARANTINED: nothing is written */
  fi
}

inline RELEASE() {
  if
  :: servers[n].holder == HOLDER(a) ->
    servers[n].holder = 0;
    servers[n].lockEnds = 0;
    if /* an abandoned attempt can never be granted: its ballot is forgotten */
    :: !attempts[a].isGranted -> servers[n].floor = servers[n].prev
    :: else
    fi
  :: else
  fi
}

/* The replica has all that the primary has by now. */
inline REPLICATE() {
  servers[1].holder = servers[0].holder;
  servers[1].lockEnds = servers[0].lockEnds;
  servers[1].floor = servers[0].floor;
  servers[1].prev = servers[0].prev
}

/* Once a second: is the replica still there? */
inline LOOK() {
  hasLooked = 1;
#ifndef NO_MIN_REPLICAS
  takesNoWrites = now - heardAt > LAG + 1;
#endif
}

inline expire() {
  do
  :: n < 2 ->
    if
    :: servers[n].holder != 0 && now >= servers[n].lockEnds ->
      servers[n].holder = 0;
      servers[n].lockEnds = 0
    :: else
    fi;
    n++
  :: else -> break
  od;
  n = 0
}

/* prev matters only while a holder may still abandon. */
inline forget_prev() {
  if
  :: servers[n].holder == 0 -> servers[n].prev = 0
  :: else
  fi
}

/* The network and the servers: executes any message at any time. */
active proctype Network() {
  byte n, a;

end:
  do
  :: atomic {
      select(n : 0 .. 1);
      select(a : 0 .. ATTEMPTS - 1);
      if
      :: TAKES_WRITES(n) && attempts[a].ballot != 0 -> ACQUIRE()
#ifdef EXTEND
      :: TAKES_WRITES(n) && attempts[a].isExtending && !attempts[a].isReleased -> EXTEND_LOCK()
#endif
      :: TAKES_WRITES(n) && attempts[a].isReleased -> RELEASE()
      :: n == 1 && a == 0 && isPromoted && !isJoined ->
        isJoined = 1;
        servers[1].voteAfter = now + WAIT_OF_GUARD
      fi;
      d_step {
        forget_prev();
        n = 0;
        a = 0
      }
    }
  :: d_step { cutAt == 0 -> REPLICATE() }
  :: d_step {
      cutAt == 0 ->
      cutAt = now;
      heardAt = now;
      hasLooked = 1
    }
  :: d_step { cutAt != 0 && now <= cutAt + UNDER_WAY && heardAt < now -> heardAt = now }
  :: d_step { cutAt != 0 && !hasLooked -> LOOK() }
  :: d_step { cutAt != 0 && !isPromoted -> isPromoted = 1 }
  :: d_step {
      now < END && (cutAt == 0 -> now < LATEST_CUT : hasLooked) ->
      now++;
      hasLooked = 0;
      expire();
      do
      :: n < 2 ->
        forget_prev();
        n++
      :: else -> break
      od;
      n = 0
    }
  od
}

/* ---- The client: one attempt, with a holder of its own ------------------------------------------------------------- */

inline has_the_lock() {
  do
  :: i < ATTEMPTS ->
    assert(i == a || now >= attempts[i].validUntil || now >= attempts[a].validUntil); /* MUTUAL EXCLUSION */
    i++
  :: else -> break
  od;
  i = 0
}

proctype Client(byte a) {
  byte p, i;

  atomic { /* attempts are alike: they begin in order */
    (a == 0 || attempts[a - 1].ballot != 0);
    select(p : 1 .. CEILING);
    (p >= LOWEST && p <= now + AHEAD);
    d_step {
      attempts[a].ballot = p;
      attempts[a].askedAt = now;
      attempts[a].newestAtStart = newest;
      p = 0
    }
  }
end:
  do
  :: d_step { /* granted: in time, or it is released */
      IS_OPEN(a) && attempts[a].isAnswered && now < attempts[a].askedAt + TTL ->
      assert(!(granted & BIT(attempts[a].ballot)));           /* UNIQUENESS */
      assert(attempts[a].ballot > attempts[a].newestAtStart); /* MONOTONICITY */
      attempts[a].validUntil = attempts[a].askedAt + TTL;
      attempts[a].isGranted = 1;
      attempts[a].isAnswered = 0;
      attempts[a].newestAtStart = 0;
      granted = granted | BIT(attempts[a].ballot);
      newest = MAX(newest, attempts[a].ballot);
      has_the_lock()
    }
#ifdef EXTEND
  :: d_step {
      attempts[a].isGranted && !attempts[a].isReleased && now < attempts[a].validUntil && attempts[a].askedAt < now ->
      attempts[a].askedAt = now;
      attempts[a].isExtending = 1;
      attempts[a].isAnswered = 0
    }
  :: d_step {
      attempts[a].isExtending && attempts[a].isAnswered && !attempts[a].isReleased && now < attempts[a].validUntil &&
      attempts[a].validUntil < attempts[a].askedAt + TTL ->
      attempts[a].validUntil = attempts[a].askedAt + TTL;
      attempts[a].isAnswered = 0;
      has_the_lock()
    }
#endif
  :: d_step { /* abandoned, released, or over */
      attempts[a].ballot != 0 && !attempts[a].isReleased ->
      attempts[a].isReleased = 1;
      attempts[a].validUntil = 0;
      attempts[a].newestAtStart = 0;
      attempts[a].askedAt = 0;
      attempts[a].isAnswered = 0
    }
  od
}

init {
  byte a;
  atomic {
    do
    :: a < ATTEMPTS ->
      run Client(a);
      a++
    :: else -> break
    od;
    a = 0
  }
}
