#!/usr/bin/env bash
# Redis 7.0.15: `master_replid` is no proof of a failover, and `run_id` is no proof of none. Who takes either for the identity of
# "this primary, since then" is wrong in both directions.
#
# 1. A primary gets another replication id when its first replica attaches, because a backlog that is made anew begins a new
#    history. Nothing was lost, nobody was promoted, and the old id is not kept in `master_replid2` either.
# 2. A primary that is made a replica of another server, takes over the data of that one, and is promoted again keeps its run id
#    and the scripts that were loaded into it, so that EVALSHA works as before. What it had written meanwhile is gone.
#
# Seen: first replica: same run id, new replication id, replid2 0
#       demoted and promoted: same run id, new replication id, EVALSHA of before 1, write of before gone
set -euo pipefail
folder=$(mktemp -d)
servers=()
finish() {
  if [ "${#servers[@]}" -gt 0 ]; then kill -9 "${servers[@]}"; wait "${servers[@]}" 2>/dev/null || true; fi
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

start() {
  mkdir "$1"
  (cd "$1" && exec ../usr/bin/redis-server --unixsocket ../"$1".sock --save '' --repl-diskless-sync-delay 0 "${@:2}" >log) &
  servers+=("$!")
  until [ "$(ask "$1" PING 2>/dev/null)" = PONG ]; do sleep 0.1; done
}
ask() { usr/bin/redis-cli -s "$1.sock" "${@:2}"; }
field() { ask "$1" INFO "$2" | tr -d '\r' | sed -n "s/^$3://p"; }
differs() { if [ "$1" = "$2" ]; then echo same; else echo new; fi; }
# A port of the loopback that was free a moment ago.
free_port() { node -e "const server = net.createServer().listen(0, '127.0.0.1', () => server.close(console.log(server.address().port)))"; }
follow() {
  ask "$1" REPLICAOF 127.0.0.1 "$2" >/dev/null
  until [ "$(field "$1" replication master_link_status)" = up ]; do sleep 0.1; done
}

port_a=$(free_port)
start a --port "$port_a" --bind 127.0.0.1
run_id=$(field a server run_id)
alone=$(field a replication master_replid)
start b --port "$(free_port)" --bind 127.0.0.1
follow b "$port_a"
joined=$(field a replication master_replid)
second=$(field a replication master_replid2 | tr -d 0)
first="first replica: $(differs "$run_id" "$(field a server run_id)") run id, $(differs "$alone" "$joined") replication id, replid2 ${second:-0}"

# B is promoted, and A goes on for one more write, as a primary does that is cut off.
digest=$(ask a SCRIPT LOAD 'return 1')
ask b REPLICAOF NO ONE >/dev/null
ask a SET late write >/dev/null
follow a "$(field b server tcp_port)"
ask a REPLICAOF NO ONE >/dev/null
again="demoted and promoted: $(differs "$run_id" "$(field a server run_id)") run id, $(differs "$joined" "$(field a replication master_replid)") replication id, EVALSHA of before $(ask a EVALSHA "$digest" 0), write of before $(if [ "$(ask a EXISTS late)" = 0 ]; then echo gone; else echo there; fi)"

printf '%s\n%s\n' "$first" "$again"
if [ "$first" != 'first replica: same run id, new replication id, replid2 0' ] ||
  [ "$again" != 'demoted and promoted: same run id, new replication id, EVALSHA of before 1, write of before gone' ]; then
  echo 'This has changed.' >&2
  exit 1
fi
