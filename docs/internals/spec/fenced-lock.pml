/*
 * The protocol of docs/internals/protocol.md on one key, as a model for the checker Spin.
 *
 * Time does not exist here: a lock key may expire at any moment, also at once. Messages are never taken out of the
 * network: what was ever sent may be executed at any time, any number of times, in any order, or never. A client may stop
 * between any two steps. Ballots are free numbers, so that clocks may show anything. Whatever holds here holds without any
 * assumption about time; what does need time (mutual exclusion inside the validity, the restart guard) is not in here.
 *
 * Properties, as assertions where they could break:
 *   UNIQUENESS        no token is granted twice
 *   MONOTONICITY      a token is above every token whose grant was complete when its attempt began
 *   EXTEND SOUNDNESS  an extension succeeds only if no newer grant was complete when it was asked for
 *
 * Sizes: SERVERS, ATTEMPTS (at most 4), BALLOTS (at most 7). Features: REBALLOT, EXTEND.
 * Each of these breaks the rule it names, and the checker finds a history that breaks a property:
 *   RESET_WITHOUT_FLOOR_CHECK  EXTEND sets a missing lock again without looking at the floor
 *   OLDER_BALLOT_GRANT         answers to an older ballot count after a newer one was sent
 *   RESTORE_AFTER_GRANTED      RELEASE of a granted lock puts the floor back as well
 *   EQUAL_BALLOT_ACCEPTED      ACQUIRE accepts p = F of another attempt
 *   HOLDER_PER_PROCESS          all attempts carry the same holder
 *   FLOOR_LOST                 a server restarts empty and votes at once: no floor, no restart guard
 * And one that must pass: NEVER_RESTORED (floors of abandoned attempts stay; safe, but holders lose what they could repair).
 */
#ifndef SERVERS
#define SERVERS 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef BALLOTS
#define BALLOTS 3
#endif
#define QUORUM (SERVERS / 2 + 1)

#ifdef HOLDER_PER_PROCESS
#define HOLDER(a) 1
#else
#define HOLDER(a) ((a) + 1)
#endif
#define BIT(x) (1 << (x))

typedef Server {
  byte holder;   /* L: who holds it; 0 = free */
  byte floor;    /* F: ballots <= F are refused */
  byte prev;     /* what F was before the last accept */
  byte accepted; /* bit a: it answered ACCEPTED to the latest ballot of attempt a */
  byte extended; /* bit a: it answered EXTENDED to the latest extension of attempt a */
#ifdef OLDER_BALLOT_GRANT
  byte acceptedFirst; /* bit a: it answered ACCEPTED to the first ballot of attempt a */
#endif
};

typedef Attempt {
  byte first;         /* the first ballot; 0 = not begun */
  byte ballot;        /* p: the latest ballot */
  byte sent;          /* bit p: ACQUIRE with ballot p is in the network */
  byte newestAtStart; /* the newest complete token when it began */
  byte token;         /* T; 0 = not granted */
  bit extending;      /* EXTEND is in the network */
  bit staleAtExtend;  /* a newer token was complete when the extension was asked for */
  bit released        /* RELEASE is in the network: abandoned, or granted where there is a token */
};

Server servers[SERVERS];
Attempt attempts[ATTEMPTS];
byte newest;  /* the newest token whose grant is complete */
byte granted; /* bit T: token T was granted */

/*
 * Servers are alike, so states that differ only in the order of the servers are one state: they are kept sorted. What can
 * have no influence any more is set to 0.
 */
#define KEY(n)                                                                                          \
  ((((servers[n].holder * 8 + servers[n].floor) * 8 + servers[n].prev) * 16 + servers[n].accepted) * 16 + \
   servers[n].extended)

inline exchange(x, y) {
  spare = x;
  x = y;
  y = spare
}

inline sort_servers() {
  i = 1;
  do
  :: i < SERVERS ->
    j = i;
    do
    :: j > 0 && KEY(j - 1) > KEY(j) ->
      exchange(servers[j - 1].holder, servers[j].holder);
      exchange(servers[j - 1].floor, servers[j].floor);
      exchange(servers[j - 1].prev, servers[j].prev);
      exchange(servers[j - 1].accepted, servers[j].accepted);
      exchange(servers[j - 1].extended, servers[j].extended);
#ifdef OLDER_BALLOT_GRANT
      exchange(servers[j - 1].acceptedFirst, servers[j].acceptedFirst);
#endif
      j--
    :: else -> break
    od;
    i++
  :: else -> break
  od;
  i = 0;
  j = 0;
  spare = 0
}

/* ---- On a server: one atomic script each -------------------------------------------------------------------------- */

inline answer_accepted() {
  if
  :: attempts[a].token == 0 && !attempts[a].released && p == attempts[a].ballot ->
    servers[n].accepted = servers[n].accepted | BIT(a)
  :: else
  fi
#ifdef OLDER_BALLOT_GRANT
  if
  :: attempts[a].token == 0 && !attempts[a].released && p == attempts[a].first ->
    servers[n].acceptedFirst = servers[n].acceptedFirst | BIT(a)
  :: else
  fi
#endif
}

inline ACQUIRE() {
  if
  :: servers[n].holder == 0 && p > servers[n].floor -> /* free, and above everything accepted before */
    servers[n].prev = servers[n].floor;
    servers[n].floor = p;
    servers[n].holder = HOLDER(a);
    answer_accepted()
  :: servers[n].holder == HOLDER(a) && p > servers[n].floor -> /* a later ballot of the same attempt keeps prev */
    servers[n].floor = p;
    answer_accepted()
  :: servers[n].holder == HOLDER(a) && p == servers[n].floor -> /* our own ballot, delivered twice */
    answer_accepted()
#ifdef EQUAL_BALLOT_ACCEPTED
  :: servers[n].holder == 0 && p == servers[n].floor ->
    servers[n].holder = HOLDER(a);
    answer_accepted()
#endif
  :: else /* HELD or STALE: nothing is written */
  fi
}

inline EXTEND_LOCK() {
  if
  :: servers[n].holder == HOLDER(a) || (servers[n].holder == 0
#ifndef RESET_WITHOUT_FLOOR_CHECK
                                      && servers[n].floor <= attempts[a].token
#endif
                                     ) ->
    if
    :: servers[n].holder == 0 || servers[n].floor < attempts[a].token ->
      servers[n].floor = (servers[n].floor < attempts[a].token -> attempts[a].token : servers[n].floor);
      servers[n].prev = servers[n].floor;
      servers[n].holder = HOLDER(a)
    :: else
    fi;
    servers[n].extended = servers[n].extended | BIT(a)
  :: else /* LOST: nothing is written */
  fi
}

inline RELEASE() {
  if
  :: servers[n].holder == HOLDER(a) ->
    servers[n].holder = 0;
#ifndef NEVER_RESTORED
    if /* an abandoned attempt can never be granted: its ballot is forgotten */
#ifdef RESTORE_AFTER_GRANTED
    :: true -> servers[n].floor = servers[n].prev
#else
    :: attempts[a].token == 0 -> servers[n].floor = servers[n].prev
    :: else
#endif
    fi
#endif
  :: else
  fi
}

/* The network and the servers: executes any message at any time, or lets a lock expire. */
active proctype Network() {
  byte n, a, p, i, j, spare;
end:
  do
  :: atomic {
      select(n : 0 .. SERVERS - 1);
      select(a : 0 .. ATTEMPTS - 1);
      if
      :: select(p : 1 .. BALLOTS);
        if
        :: attempts[a].sent & BIT(p) -> ACQUIRE()
        :: else
        fi
#ifdef EXTEND
      :: attempts[a].extending -> EXTEND_LOCK()
#endif
      :: attempts[a].released -> RELEASE()
      :: a == 0 -> servers[n].holder = 0 /* it expires */
#ifdef FLOOR_LOST
      :: a == 0 ->
        servers[n].holder = 0;
        servers[n].floor = 0
#endif
      fi;
      d_step {
        if /* prev matters only while the holder may still abandon */
        :: servers[n].holder == 0 -> servers[n].prev = 0
        :: else
        fi;
        n = 0;
        a = 0;
        p = 0;
        sort_servers()
      }
    }
  od
}

/* ---- The client: one attempt, with a holder of its own ------------------------------------------------------------- */

#define YES(n, field, a) ((servers[n].field >> (a)) & 1)
#if SERVERS == 1
#define VOTES(field, a) YES(0, field, a)
#elif SERVERS == 3
#define VOTES(field, a) (YES(0, field, a) + YES(1, field, a) + YES(2, field, a))
#elif SERVERS == 5
#define VOTES(field, a) \
  (YES(0, field, a) + YES(1, field, a) + YES(2, field, a) + YES(3, field, a) + YES(4, field, a))
#endif

inline forget_answers() {
  do
  :: i < SERVERS ->
    servers[i].accepted = servers[i].accepted & ~BIT(a);
#ifdef OLDER_BALLOT_GRANT
    servers[i].acceptedFirst = servers[i].acceptedFirst & ~BIT(a);
#endif
    servers[i].extended = servers[i].extended & ~BIT(a);
    i++
  :: else -> break
  od;
  i = 0
}

inline grant(T) {
  assert(!(granted & BIT(T)));             /* UNIQUENESS */
  assert(T > attempts[a].newestAtStart);   /* MONOTONICITY */
  attempts[a].token = T;
  granted = granted | BIT(T);
  newest = (T > newest -> T : newest);
  attempts[a].newestAtStart = 0;
  forget_answers()
}

proctype Client(byte a) {
  byte p, i, j, spare;

  atomic { /* attempts are alike as well: they begin in order */
    (a == 0 || attempts[a - 1].first != 0);
    select(p : 1 .. BALLOTS);
    attempts[a].first = p;
    attempts[a].ballot = p;
    attempts[a].sent = BIT(p);
    attempts[a].newestAtStart = newest;
    p = 0
  }
end:
  do
  :: atomic {
      attempts[a].token == 0 && !attempts[a].released ->
      if
      :: VOTES(accepted, a) >= QUORUM -> grant(attempts[a].ballot)
#ifdef OLDER_BALLOT_GRANT
      :: VOTES(acceptedFirst, a) >= QUORUM -> grant(attempts[a].first)
#endif
#ifdef REBALLOT
      :: select(p : 1 .. BALLOTS); /* STALE: a higher ballot under the same holder */
        d_step {
          if
          :: p > attempts[a].ballot ->
            attempts[a].ballot = p;
            attempts[a].sent = attempts[a].sent | BIT(p);
            do /* answers to the older ballot no longer count */
            :: i < SERVERS ->
              servers[i].accepted = servers[i].accepted & ~BIT(a);
              i++
            :: else -> break
            od;
            i = 0
          :: else
          fi;
          p = 0
        }
#endif
      :: d_step { /* abandoned */
          attempts[a].released = 1;
          attempts[a].newestAtStart = 0;
          forget_answers()
        }
      fi;
      d_step { sort_servers() }
    }
#ifdef EXTEND
  :: d_step { /* asks for an extension */
      attempts[a].token != 0 && !attempts[a].released ->
      attempts[a].extending = 1;
      attempts[a].staleAtExtend = (newest > attempts[a].token);
      do
      :: i < SERVERS ->
        servers[i].extended = servers[i].extended & ~BIT(a);
        i++
      :: else -> break
      od;
      i = 0;
      sort_servers()
    }
  :: d_step {
      attempts[a].extending && !attempts[a].released ->
      assert(VOTES(extended, a) < QUORUM || !attempts[a].staleAtExtend) /* EXTEND SOUNDNESS */
    }
#endif
  :: d_step {
      attempts[a].token != 0 && !attempts[a].released ->
      attempts[a].released = 1;
      attempts[a].staleAtExtend = 0;
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
