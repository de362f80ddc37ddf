#!/usr/bin/env bash
# Redis 7.0.15: WAIT inside of MULTI answers 1 for a write that no replica has. After EXEC, on the same connection, it answers 0.
#
# The manual says that in a transaction WAIT does not block, and returns how many replicas have acknowledged the writes before it.
# The writes of the transaction itself are not among these, as they are sent to the replicas when it is over. While all is quiet
# every replica has all of the past, and so the answer is the number of replicas, whether they still listen or not: a lock that is
# taken by `multi().set(…).wait(…).exec()` looks replicated at once and without a wait. Here the replica is stopped before the
# transaction.
#
# Seen: EXEC answers OK and 1, WAIT after it 0
set -euo pipefail
folder=$(mktemp -d)
servers=()
finish() {
  if [ "${#servers[@]}" -gt 0 ]; then kill -9 "${servers[@]}" || true; wait "${servers[@]}" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
# The check tool of redis-tools is the server, which decides by its name what to be.
apt-get download -qq redis-tools=5:7.0.15-1~deb12u10 liblzf1 libjemalloc2 2>/dev/null ||
  { echo "apt-get download of redis-tools 5:7.0.15-1~deb12u10 (Debian 12) failed" >&2; exit 1; }
for package in ./*.deb; do dpkg -x "$package" .; done
ln -s redis-check-rdb usr/bin/redis-server
LD_LIBRARY_PATH=$(echo "$PWD"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH

# A port of the loopback that was free a moment ago.
free_port() { node -e "const server = net.createServer().listen(0, '127.0.0.1', () => server.close(console.log(server.address().port)))"; }
start() {
  mkdir "$1"
  (cd "$1" && exec ../usr/bin/redis-server --unixsocket ../"$1".sock --bind 127.0.0.1 --save '' --repl-diskless-sync-delay 0 \
    --repl-ping-replica-period 3600 "${@:2}" >log) &
  servers+=("$!")
  until [ "$(ask "$1" PING 2>/dev/null)" = PONG ]; do sleep 0.1; done
}
ask() { usr/bin/redis-cli -s "$1.sock" "${@:2}"; }
field() { ask "$1" INFO replication | tr -d '\r' | sed -n "s/^$2://p"; }

port=$(free_port)
start primary --port "$port"
start replica --port "$(free_port)" --replicaof "127.0.0.1 $port"
until [ "$(field replica master_link_status)" = up ]; do sleep 0.1; done
# The replica has acknowledged all of the past.
until [[ "$(field primary slave0)" == *",state=online,offset=$(field primary master_repl_offset),"* ]]; do sleep 0.1; done
kill -STOP "${servers[1]}"
mapfile -t answers < <(printf '%s\n' MULTI 'SET lock owner' 'WAIT 1 300' EXEC 'WAIT 1 300' | ask primary)
seen="EXEC answers ${answers[3]} and ${answers[4]}, WAIT after it ${answers[5]}"
expected='EXEC answers OK and 1, WAIT after it 0'
echo "$seen"
if [ "$seen" != "$expected" ]; then
  echo "This has changed. Expected: $expected" >&2
  exit 1
fi
