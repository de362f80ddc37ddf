/*
 * What comes to mind first, and why it is not done: each server counts its locks, and the token is the maximum over the
 * quorum that granted. Same network, same expiry, and the same two properties as in fenced-lock.pml.
 *
 *   MAX                token = the maximum; fails
 *   BLIND_WRITE_BACK   the maximum is written back to a quorum first, as in a replicated register; fails, even where locks
 *                      never expire early (NO_EXPIRY)
 *   HOLDER_WRITE_BACK   only a server that still has us as holder acknowledges, and only when its counter is the maximum
 *                      afterwards; passes, but costs a second round trip after every split vote
 */
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef COUNTS
#define COUNTS 3 /* counters stop here */
#endif
#define SERVERS 3
#define QUORUM 2
#define BIT(x) (1 << (x))

typedef Server {
  byte holder;           /* 0 = free, otherwise attempt + 1 */
  byte counter;
  byte counted[ATTEMPTS]; /* the counter that it returned to the attempt; 0 = no answer yet */
  byte written           /* bit a: it acknowledged the write-back of attempt a */
};

Server servers[SERVERS];
byte token[ATTEMPTS];   /* 0 = not granted */
byte maximum[ATTEMPTS]; /* what is written back; 0 = nothing */
bool begun[ATTEMPTS];
bool decided[ATTEMPTS]; /* granted or abandoned: answers are no longer listened to */
bool released[ATTEMPTS];
byte newest;  /* the newest token whose grant is complete */
byte granted; /* bit T: token T was granted */

inline ACQUIRE() {
  if
  :: servers[n].holder == 0 && servers[n].counter < COUNTS ->
    servers[n].counter++;
    servers[n].holder = a + 1;
    servers[n].counted[a] = (decided[a] -> 0 : servers[n].counter)
  :: servers[n].holder == a + 1 -> servers[n].counted[a] = (decided[a] -> 0 : servers[n].counter)
  :: else
  fi
}

inline WRITE_BACK() {
  if
#ifdef BLIND_WRITE_BACK
  :: true ->
    servers[n].counter = (servers[n].counter < maximum[a] -> maximum[a] : servers[n].counter);
    servers[n].written = servers[n].written | BIT(a)
#else
  :: servers[n].holder == a + 1 && servers[n].counter <= maximum[a] ->
    servers[n].counter = maximum[a];
    servers[n].written = servers[n].written | BIT(a)
#endif
  :: else
  fi
}

active proctype Network() {
  byte n, a;
end:
  do
  :: atomic {
      select(n : 0 .. SERVERS - 1);
      select(a : 0 .. ATTEMPTS - 1);
      if
      :: begun[a] -> ACQUIRE()
      :: maximum[a] != 0 && !decided[a] -> WRITE_BACK()
      :: released[a] && servers[n].holder == a + 1 -> servers[n].holder = 0
#ifndef NO_EXPIRY
      :: servers[n].holder != 0 -> servers[n].holder = 0
#endif
      :: else
      fi;
      n = 0;
      a = 0
    }
  od
}

inline end_attempt() {
  decided[a] = true;
  newestAtStart = 0;
  maximum[a] = 0;
  do
  :: i < SERVERS ->
    servers[i].counted[a] = 0;
    servers[i].written = servers[i].written & ~BIT(a);
    i++
  :: else -> break
  od;
  i = 0
}

inline grant(T) {
  assert(!(granted & BIT(T)));  /* UNIQUENESS */
  assert(T > newestAtStart);    /* MONOTONICITY */
  token[a] = T;
  granted = granted | BIT(T);
  newest = (T > newest -> T : newest);
  end_attempt()
}

/* Over the servers of one quorum: all have answered, the maximum, and how many are at it. */
inline tally(quorum) {
  do
  :: i < SERVERS ->
    if
    :: quorum & BIT(i) ->
      complete = complete && servers[i].counted[a] != 0;
      highest = (servers[i].counted[a] > highest -> servers[i].counted[a] : highest)
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0
}

proctype Client(byte a) {
  byte newestAtStart, highest, i, chosen;
  bool complete;

  atomic {
    begun[a] = true;
    newestAtStart = newest
  }
end:
  do
  :: atomic {
      !decided[a] && maximum[a] == 0 ->
      if
      :: chosen = 3
      :: chosen = 5
      :: chosen = 6
      :: chosen = 7
      fi;
      complete = true;
      tally(chosen);
      if
      :: complete ->
#ifdef MAX
        grant(highest)
#else
        maximum[a] = highest;
        do
        :: i < SERVERS -> /* who has counted as much needs no writing */
          if
          :: (chosen & BIT(i)) && servers[i].counted[a] == highest ->
            servers[i].written = servers[i].written | BIT(a)
          :: else
          fi;
          i++
        :: else -> break
        od;
        i = 0
#endif
      :: else
      fi;
      highest = 0;
      chosen = 0;
      complete = false
    }
  :: atomic {
      !decided[a] && maximum[a] != 0 && ((servers[0].written >> a) & 1) + ((servers[1].written >> a) & 1) + ((servers[2].written >> a) & 1) >= QUORUM ->
      highest = maximum[a];
      grant(highest);
      highest = 0
    }
  :: atomic { /* abandoned */
      !decided[a] ->
      end_attempt();
      released[a] = true
    }
  :: decided[a] && !released[a] -> released[a] = true
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
