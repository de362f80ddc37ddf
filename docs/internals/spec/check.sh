#!/usr/bin/env bash
# Checks the models of this folder with Spin: what must hold, and that every weakened variant breaks. Needs `spin` and a C
# compiler (Debian: apt-get install spin gcc). `--all` adds the larger configurations. `--if-changed` does nothing where a run
# was as expected with these very files, which `checked.sha256` records. Exit code 0 = everything as expected.
set -euo pipefail
models=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ "${1:-}" = --if-changed ] && (cd "$models" && sha256sum --check --quiet checked.sha256); then
  echo 'The models are those of the last run, in which everything was as expected.'
  exit 0
fi
for tool in spin gcc; do
  command -v "$tool" >/dev/null || { echo "'$tool' is missing; on Debian and Ubuntu: apt-get install spin gcc" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check holds|breaks <model> [<-D flags>]
check() {
  local expected=$1 model=$2 seen started=$SECONDS
  shift 2
  (
    cd "$work"
    rm -f pan* ./*.trail
    spin -a "$@" "$models/$model.pml" >spin.log
    gcc -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c
    ./pan -E -m1000000 >pan.log 2>&1
  ) || { cat "$work"/*.log >&2; exit 1; }
  if grep -Eq 'max search depth too small|out of memory|memory limit|aborted' "$work/pan.log"; then
    seen='unfinished'
  elif grep -q 'assertion violated' "$work/pan.log" && ! grep -q 'errors: 0' "$work/pan.log"; then
    seen='breaks'
  elif grep -q 'errors: 0' "$work/pan.log"; then
    seen='holds'
  else
    seen='unknown'
  fi
  local verdict='ok'
  if [ "$seen" != "$expected" ]; then
    verdict="NOT AS EXPECTED ($expected)"
    failed=1
    cat "$work/pan.log"
  fi
  printf '%-19s %-62s %-7s %9d states %4d s  %s\n' "$model" "$*" "$seen" \
    "$(awk '/states, stored/ { print $1; exit }' "$work/pan.log")" "$((SECONDS - started))" "$verdict"
}

check holds fenced-lock -DEXTEND -DREBALLOT
check holds fenced-lock -DATTEMPTS=3

check breaks fenced-lock -DEXTEND -DRESET_WITHOUT_FLOOR_CHECK
check breaks fenced-lock -DEXTEND -DREBALLOT -DOLDER_BALLOT_GRANT
check breaks fenced-lock -DRESTORE_AFTER_GRANTED
check breaks fenced-lock -DEQUAL_BALLOT_ACCEPTED
check breaks fenced-lock -DHOLDER_PER_PROCESS
check breaks fenced-lock -DFLOOR_LOST

in_time() { local expected=$1; shift; check "$expected" fenced-lock-in-time "$@"; }
in_time holds -DEND=4 -DEXTEND -DKEPT
in_time holds -DEND=4 -DRESTARTS=1
in_time holds -DEND=4 -DRESTARTS=1 -DGATE
in_time holds -DEND=8 -DTTL=1 -DRETENTION=4 -DGATE

in_time breaks -DEND=4 -DVALID_FROM_ANSWER
in_time breaks -DEND=4 -DFAST_SERVER
in_time breaks -DEND=4 -DKEPT -DKEPT_OVER_LOCK
in_time breaks -DEND=4 -DKEPT -DKEPT_ABOVE_FLOOR
in_time breaks -DEND=4 -DRESTARTS=1 -DNO_GUARD
in_time breaks -DEND=4 -DRESTARTS=1 -DSHORT_GUARD
in_time breaks -DEND=4 -DRESTARTS=1 -DEXTEND -DEXTEND_IN_GUARD
in_time breaks -DEND=4 -DRESTARTS=1 -DNO_LIMIT
in_time breaks -DEND=4 -DRESTARTS=1 -DFAR_BALLOT
in_time breaks -DEND=4 -DRESTARTS=1 -DBACK_AT_RESTART
in_time breaks -DEND=4 -DRESTARTS=1 -DGATE -DGATE_AFTER_JOIN
in_time breaks -DEND=7 -DTTL=1 -DRETENTION=4 -DSHORT_FLOOR
in_time breaks -DEND=8 -DTTL=1 -DRETENTION=4 -DNO_CLOCK_LIMIT
in_time breaks -DEND=7 -DTTL=1 -DRETENTION=4 -DCLOCK_BACK

failover() { local expected=$1; shift; check "$expected" failover "$@"; }
failover holds
failover holds -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DEXTEND
failover holds -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DEXTEND -DCRASH -DGUARD=2 -DEXTEND_AT_ONCE

failover breaks -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DNO_GUARD
failover breaks -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DSHORT_GUARD
failover breaks -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DJOINED_BEFORE
failover breaks -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DNO_MIN_REPLICAS
failover breaks -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DEXTEND -DEXTEND_AT_ONCE
failover breaks -DEND=7 -DTTL=2 -DEQUAL_CLOCKS -DLATE_WORD
failover breaks -DFAR_BALLOT

check breaks counters -DMAX
check breaks counters -DATTEMPTS=3 -DBLIND_WRITE_BACK
check breaks counters -DATTEMPTS=3 -DBLIND_WRITE_BACK -DNO_EXPIRY
check holds counters -DCOUNTS=2 -DHOLDER_WRITE_BACK

if [ "${1:-}" = --all ]; then
  check holds fenced-lock -DEXTEND -DREBALLOT -DNEVER_RESTORED
  check holds fenced-lock -DSERVERS=1 -DATTEMPTS=3 -DEXTEND -DREBALLOT
  check holds fenced-lock -DATTEMPTS=3 -DEXTEND
  check holds fenced-lock -DSERVERS=5 -DEXTEND
  check holds fenced-lock -DBALLOTS=4 -DEXTEND -DREBALLOT
  check holds counters -DATTEMPTS=3 -DCOUNTS=2 -DHOLDER_WRITE_BACK
  in_time holds -DEND=5 -DRESTARTS=1 -DKEPT
  failover holds -DEQUAL_CLOCKS -DEXTEND
  failover holds -DEND=8 -DTTL=2 -DEQUAL_CLOCKS -DGUARD=6 -DLATE_WORD
fi

if [ "$failed" -ne 0 ]; then
  echo 'The models are not as expected.' >&2
  exit 1
fi
(cd "$models" && sha256sum ./*.pml check.sh >checked.sha256)
echo 'Everything as expected.'
