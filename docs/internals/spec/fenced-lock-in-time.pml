/*
 * The protocol of docs/internals/protocol.md on one key, with time: what a lease, the restart guard, the life of floors and kept
 * keys are for. Its sister fenced-lock.pml assumes nothing about time, and promises less.
 *
 * Time goes on in ticks, at the same rate everywhere, up to END. The clock of a server is the time, plus an error. A client may
 * stop between any two steps. What was ever sent may be executed at any time, any number of times, in any order, or never; by
 * another start of a server only where the attempt is still open (its vote is sent again after a join). A ballot is any number
 * up to AHEAD above the time: clocks of clients may be behind as far as they like.
 *
 * Properties, as assertions where they could break:
 *   MUTUAL EXCLUSION  no two attempts have the lock at one time, each by its own deadline
 *   UNIQUENESS        no token is granted twice
 *   MONOTONICITY      a token is above every token whose grant was complete when its attempt began
 *
 * Features: EXTEND; GATE, of a tick (R/16 in the code); KEPT (a server may keep a free lock for any attempt, as RELEASE and WAIT
 * do); RESTARTS, how often servers lose all they have. Sizes: ATTEMPTS (at most 3), END (at most 12); TTL, GUARD, RETENTION in
 * ticks.
 * Each of these breaks the rule or the premise it names, and the checker finds a history that breaks a property:
 *   VALID_FROM_ANSWER   the validity of a lock begins with the answers and not with the question
 *   FAST_SERVER         a server's locks end a tick early, and nothing is taken off the validity for drift
 *   KEPT_OVER_LOCK      a server keeps a lock for the next one that somebody else has
 *   KEPT_ABOVE_FLOOR    the attempt for which a lock is kept gets it without a look at the floor
 *   NO_GUARD            a server that restarted votes as soon as somebody joined it
 *   SHORT_GUARD         … after less than a ttl
 *   EXTEND_IN_GUARD     … and EXTEND sets a missing lock again before that
 *   NO_LIMIT            after the guard, ballots that may have been forgotten are taken
 *   FAR_BALLOT          a ballot is further ahead of a restarting server's clock than half the guard
 *   BACK_AT_RESTART     the clock of a server goes back across a restart
 *   SHORT_FLOOR         a floor ends with its lock
 *   NO_CLOCK_LIMIT      a key without a floor takes every ballot
 *   CLOCK_BACK          the clocks of a quorum go back by more than half the retention after floors have ended (one alone does not
 *                       break it: the other servers of a quorum refuse)
 *   GATE_AFTER_JOIN     a gate stays when a server is joined after it lost its marker and its floors
 */
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef END
#define END 5
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef GUARD
#define GUARD 2
#endif
#ifndef RETENTION
#define RETENTION 16
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifdef FAR_BALLOT
#define AHEAD (GUARD / 2 + 1)
#else
#define AHEAD (GUARD / 2)
#endif
#ifdef SHORT_GUARD
#define WAIT_OF_GUARD (TTL - 1)
#elif defined(NO_GUARD)
#define WAIT_OF_GUARD 0
#else
#define WAIT_OF_GUARD GUARD
#endif
#ifdef BACK_AT_RESTART
#define BACK_BY 3
#elif defined(CLOCK_BACK)
#define BACK_BY (RETENTION / 2 + TTL + 1)
#else
#define BACK_BY 0
#endif
#define SERVERS 3
#define QUORUM 2
#define LONGEST_KEEP 1
#define BIT(x) (1 << (x))
#define HOLDER(a) ((a) + 1)
#define KEPT_FOR(a) ((a) + 1 + ATTEMPTS)
/* The clock of a server. Numbers are kept above 0 by a start at BACK_BY. */
#define CLOCK(n) (now + BACK_BY - servers[n].back)
#define CEILING (END + BACK_BY + AHEAD)

typedef Server {
  byte holder;     /* L: an attempt, or one for which it is kept; 0 = free */
  byte lockEnds;   /* by its clock */
  byte floor;      /* F; 0 = none */
  byte prev;
  byte floorEnds;  /* by its clock */
  byte voteAfter;  /* by its clock; 0 = long ago */
  bit isJoined;
  bit isRestarted; /* another start than the first */
  byte back;       /* how far its clock has gone back */
#ifdef GATE
  byte gateEnds;   /* by its clock; 0 = none */
  byte gateLow;
  byte gateHigh;
#endif
  byte accepted;   /* bit a: it answered ACCEPTED to attempt a */
  byte extended    /* bit a: it answered EXTENDED to the latest extension of attempt a */
};

typedef Attempt {
  byte ballot;        /* 0 = not begun */
  byte newestAtStart; /* the newest complete token when it began */
  byte askedAt;       /* when its vote, or its latest extension, left */
  byte validUntil;    /* 0 = not granted, or given up */
  bit isGranted;
  bit isExtending;
  bit isReleased
};

Server servers[SERVERS];
Attempt attempts[ATTEMPTS];
byte now = 1;
byte newest;    /* the newest token whose grant is complete */
short granted;  /* bit T: token T was granted */
byte restarts;
byte setBack; /* how many servers */

#define IS_OPEN(a) (attempts[a].ballot != 0 && !attempts[a].isGranted && !attempts[a].isReleased)
#define YES(n, field, a) ((servers[n].field >> (a)) & 1)
#define VOTES(field, a) (YES(0, field, a) + YES(1, field, a) + YES(2, field, a))
#define MAX(x, y) ((x) > (y) -> (x) : (y))

/* Servers are alike: states that differ only in their order are one state. */
inline exchange(x, y) { spare = x; x = y; y = spare }

#ifdef GATE
#define GATE_OF(n) (servers[n].gateEnds * 32 + servers[n].gateLow)
#else
#define GATE_OF(n) 0
#endif
#define KEY(n)                                                                                                       \
  ((((((servers[n].holder * 32 + servers[n].floor) * 32 + servers[n].lockEnds) * 8 + servers[n].accepted) * 8 +        \
     servers[n].extended) * 2 + servers[n].isJoined) * 2 + servers[n].isRestarted)
#define REST(n)                                                                                                      \
  ((((servers[n].floorEnds * 32 + servers[n].prev) * 32 + servers[n].voteAfter) * 1024 + GATE_OF(n)) * 16 + servers[n].back)

inline order(x, y) {
  if
  :: KEY(y) < KEY(x) || (KEY(y) == KEY(x) && REST(y) < REST(x)) ->
    exchange(servers[x].holder, servers[y].holder);
    exchange(servers[x].lockEnds, servers[y].lockEnds);
    exchange(servers[x].floor, servers[y].floor);
    exchange(servers[x].prev, servers[y].prev);
    exchange(servers[x].floorEnds, servers[y].floorEnds);
    exchange(servers[x].voteAfter, servers[y].voteAfter);
    exchange(servers[x].isJoined, servers[y].isJoined);
    exchange(servers[x].isRestarted, servers[y].isRestarted);
    exchange(servers[x].back, servers[y].back);
#ifdef GATE
    exchange(servers[x].gateEnds, servers[y].gateEnds);
    exchange(servers[x].gateLow, servers[y].gateLow);
    exchange(servers[x].gateHigh, servers[y].gateHigh);
#endif
    exchange(servers[x].accepted, servers[y].accepted);
    exchange(servers[x].extended, servers[y].extended)
  :: else
  fi
}

inline sort_servers() {
  order(0, 1);
  order(1, 2);
  order(0, 1);
  spare = 0
}

/* ---- On a server: one atomic script each -------------------------------------------------------------------------- */

#ifdef FAST_SERVER
#define LOCK_ENDS(n) (CLOCK(n) + TTL - 1)
#else
#define LOCK_ENDS(n) (CLOCK(n) + TTL)
#endif
#ifdef SHORT_FLOOR
#define FLOOR_ENDS(n, p) (CLOCK(n) + TTL)
#else
#define FLOOR_ENDS(n, p) (MAX(p, CLOCK(n)) + TTL + RETENTION)
#endif
#define MAY_VOTE(n) (servers[n].isJoined && CLOCK(n) >= servers[n].voteAfter)
#ifdef NO_CLOCK_LIMIT
#define CLOCK_LIMIT(n) 0
#else
#define CLOCK_LIMIT(n) (CLOCK(n) > RETENTION / 2 -> CLOCK(n) - RETENTION / 2 : 0)
#endif
#ifdef NO_LIMIT
#define GUARD_LIMIT(n) 0
#else
#define GUARD_LIMIT(n) (servers[n].voteAfter > GUARD / 2 -> servers[n].voteAfter - GUARD / 2 : 0)
#endif
#define IS_STALE(n, p) (p <= servers[n].floor || p <= CLOCK_LIMIT(n) || p <= GUARD_LIMIT(n))
/* What was sent to one start of a server is executed by no other one. */
#define REACHES(a, n) (!servers[n].isRestarted || IS_OPEN(a))

inline answer_accepted() {
  if
  :: IS_OPEN(a) -> servers[n].accepted = servers[n].accepted | BIT(a)
  :: else
  fi
}

inline write_lock() {
  servers[n].prev = servers[n].floor;
  servers[n].floor = attempts[a].ballot;
  servers[n].floorEnds = ends;
  ends = 0;
  servers[n].holder = HOLDER(a);
  servers[n].lockEnds = LOCK_ENDS(n);
  answer_accepted()
}

#ifdef KEPT_ABOVE_FLOOR
#define IS_FREE_FOR(a, n) (servers[n].holder == KEPT_FOR(a) || (servers[n].holder == 0 && !IS_STALE(n, attempts[a].ballot)))
#else
#define IS_FREE_FOR(a, n) \
  ((servers[n].holder == KEPT_FOR(a) || servers[n].holder == 0) && !IS_STALE(n, attempts[a].ballot))
#endif
#ifdef GATE
#define GATE_TICKS 1
#define PASSES_GATE(a, n)                                                                                             \
  (servers[n].gateEnds != 0 && servers[n].isJoined && (servers[n].holder == KEPT_FOR(a) || servers[n].holder == 0) && \
   attempts[a].ballot > servers[n].floor && attempts[a].ballot > servers[n].gateLow && attempts[a].ballot <= servers[n].gateHigh)
#else
#define PASSES_GATE(a, n) false
#endif

inline ACQUIRE() {
  if
  :: MAY_VOTE(n) && servers[n].holder == HOLDER(a) && attempts[a].ballot == servers[n].floor ->
    answer_accepted() /* delivered twice */
#ifdef GATE
  :: PASSES_GATE(a, n) ->
    ends = servers[n].gateHigh + TTL + RETENTION;
    write_lock()
#endif
  :: !PASSES_GATE(a, n) && MAY_VOTE(n) && IS_FREE_FOR(a, n) ->
    ends = FLOOR_ENDS(n, attempts[a].ballot);
    write_lock();
#ifdef GATE
    servers[n].gateEnds = CLOCK(n) + GATE_TICKS;
    servers[n].gateHigh = CLOCK(n) + 2 * GATE_TICKS;
    servers[n].gateLow = MAX(GUARD_LIMIT(n), MAX(servers[n].voteAfter, CLOCK_LIMIT(n)));
    if
    :: CLOCK(n) + GATE_TICKS > RETENTION / 2 ->
      servers[n].gateLow = MAX(servers[n].gateLow, CLOCK(n) + GATE_TICKS - RETENTION / 2)
    :: else
    fi
#endif
  :: else /* HELD, STALE, UNJOINED or QUARANTINED: nothing is written */
  fi
}

#ifdef EXTEND_IN_GUARD
#define MAY_REPAIR(n) true
#else
#define MAY_REPAIR(n) MAY_VOTE(n)
#endif

inline EXTEND_LOCK() {
  if
  :: servers[n].holder == HOLDER(a) ||
     ((servers[n].holder == 0 || servers[n].holder > ATTEMPTS) && servers[n].floor <= attempts[a].ballot && MAY_REPAIR(n)) ->
    servers[n].floor = MAX(servers[n].floor, attempts[a].ballot);
    servers[n].prev = servers[n].floor;
    servers[n].floorEnds = MAX(servers[n].floorEnds, FLOOR_ENDS(n, attempts[a].ballot));
    servers[n].lockEnds = (servers[n].holder == HOLDER(a) -> MAX(servers[n].lockEnds, LOCK_ENDS(n)) : LOCK_ENDS(n));
    servers[n].holder = HOLDER(a);
    servers[n].extended = servers[n].extended | BIT(a)
  :: else /* LOST: nothing is written */
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

inline KEEP() {
  if
#ifdef KEPT_OVER_LOCK
  :: true ->
#else
  :: servers[n].holder == 0 ->
#endif
    servers[n].holder = KEPT_FOR(a);
    servers[n].lockEnds = CLOCK(n) + LONGEST_KEEP
  :: else
  fi
}

inline RESTART() {
  if
  :: restarts < RESTARTS ->
    restarts++;
    servers[n].holder = 0;
    servers[n].lockEnds = 0;
    servers[n].floor = 0;
    servers[n].floorEnds = 0;
    servers[n].isJoined = 0;
    servers[n].isRestarted = 1
#if defined(GATE) && !defined(GATE_AFTER_JOIN)
    ;
    servers[n].gateEnds = 0;
    servers[n].gateLow = 0;
    servers[n].gateHigh = 0
#endif
#ifdef BACK_AT_RESTART
    ;
    servers[n].back = BACK_BY
#endif
  :: else
  fi
}

inline JOIN() {
  if
  :: !servers[n].isJoined ->
    servers[n].isJoined = 1;
    servers[n].voteAfter = CLOCK(n) + WAIT_OF_GUARD
  :: else
  fi
}

/* Locks and floors of which the time is over. */
inline expire() {
  do
  :: n < SERVERS ->
    if
    :: servers[n].holder != 0 && CLOCK(n) >= servers[n].lockEnds ->
      servers[n].holder = 0;
      servers[n].lockEnds = 0
    :: else
    fi;
    if
    :: servers[n].floor != 0 && CLOCK(n) >= servers[n].floorEnds ->
      servers[n].floor = 0;
      servers[n].floorEnds = 0
    :: else
    fi;
#ifdef GATE
    if
    :: servers[n].gateEnds != 0 && CLOCK(n) >= servers[n].gateEnds ->
      servers[n].gateEnds = 0;
      servers[n].gateLow = 0;
      servers[n].gateHigh = 0
    :: else
    fi;
#endif
    n++
  :: else -> break
  od;
  n = 0
}

/* prev matters only while a holder may still abandon. */
inline forget_prev() {
  if
  :: servers[n].holder == 0 || servers[n].holder > ATTEMPTS -> servers[n].prev = 0
  :: else
  fi
}

/* The network and the servers: executes any message at any time. */
active proctype Network() {
  byte n, a, ends, spare;

  do
  :: n < SERVERS ->
    servers[n].isJoined = 1;
    n++
  :: else -> break
  od;
  n = 0;
end:
  do
  :: atomic {
      select(n : 0 .. SERVERS - 1);
      select(a : 0 .. ATTEMPTS - 1);
      if
      :: attempts[a].ballot != 0 && REACHES(a, n) -> ACQUIRE()
#ifdef EXTEND
      :: attempts[a].isExtending && (!servers[n].isRestarted || !attempts[a].isReleased) -> EXTEND_LOCK()
#endif
      :: attempts[a].isReleased -> RELEASE()
#ifdef KEPT
      :: attempts[a].ballot == 0 || IS_OPEN(a) -> KEEP()
#endif
#if RESTARTS > 0
      :: a == 0 -> RESTART()
      :: a == 0 -> JOIN()
#endif
#ifdef CLOCK_BACK
      :: a == 0 && setBack < QUORUM && servers[n].back == 0 -> setBack++; servers[n].back = BACK_BY
#endif
      fi;
      d_step {
        forget_prev();
        n = 0;
        a = 0;
        sort_servers()
      }
    }
  :: d_step {
      now < END ->
      now++;
      expire();
      do
      :: n < SERVERS ->
        forget_prev();
        n++
      :: else -> break
      od;
      n = 0;
      sort_servers()
    }
  od
}

/* ---- The client: one attempt, with a holder of its own ------------------------------------------------------------- */

inline forget_answers() {
  do
  :: i < SERVERS ->
    servers[i].accepted = servers[i].accepted & ~BIT(a);
    servers[i].extended = servers[i].extended & ~BIT(a);
    i++
  :: else -> break
  od;
  i = 0
}

inline has_the_lock() {
  do
  :: i < ATTEMPTS ->
    assert(i == a || now >= attempts[i].validUntil || now >= attempts[a].validUntil); /* MUTUAL EXCLUSION */
    i++
  :: else -> break
  od;
  i = 0
}

#ifdef VALID_FROM_ANSWER
#define VALID_UNTIL (now + TTL)
#else
#define VALID_UNTIL (attempts[a].askedAt + TTL)
#endif

proctype Client(byte a) {
  byte p, i, spare;

  atomic { /* attempts are alike as well: they begin in order */
    (a == 0 || attempts[a - 1].ballot != 0);
    select(p : 1 .. CEILING);
    (p <= now + BACK_BY + AHEAD);
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
      IS_OPEN(a) && VOTES(accepted, a) >= QUORUM && now < VALID_UNTIL ->
      assert(!(granted & BIT(attempts[a].ballot)));           /* UNIQUENESS */
      assert(attempts[a].ballot > attempts[a].newestAtStart); /* MONOTONICITY */
      attempts[a].validUntil = VALID_UNTIL;
      attempts[a].isGranted = 1;
      attempts[a].newestAtStart = 0;
      granted = granted | BIT(attempts[a].ballot);
      newest = MAX(newest, attempts[a].ballot);
      has_the_lock();
      forget_answers();
      sort_servers()
    }
#ifdef EXTEND
  :: d_step {
      attempts[a].isGranted && !attempts[a].isReleased && now < attempts[a].validUntil && attempts[a].askedAt < now ->
      attempts[a].askedAt = now;
      attempts[a].isExtending = 1;
      forget_answers();
      sort_servers()
    }
  :: d_step {
      attempts[a].isExtending && !attempts[a].isReleased && VOTES(extended, a) >= QUORUM && now < attempts[a].validUntil &&
      attempts[a].validUntil < attempts[a].askedAt + TTL ->
      attempts[a].validUntil = attempts[a].askedAt + TTL;
      has_the_lock();
      forget_answers();
      sort_servers()
    }
#endif
  :: d_step { /* abandoned, released, or over */
      attempts[a].ballot != 0 && !attempts[a].isReleased ->
      attempts[a].isReleased = 1;
      attempts[a].validUntil = 0;
      attempts[a].newestAtStart = 0;
      attempts[a].askedAt = 0;
      forget_answers();
      sort_servers()
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
