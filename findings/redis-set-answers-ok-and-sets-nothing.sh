#!/usr/bin/env bash
# Redis 7.0.15: `SET lock value NX PXAT end` answers OK to one client after the other, and there is no lock, when `end` is past.
#
# The manual says that OK means "the key was set". With an end that is past the server sets a key that has run out already, which
# nobody can read and which stands in nobody's way. A lock whose end is counted from the client's clock (now + ttl) therefore
# depends on that clock: a client that is late by more than the ttl is told that it has the lock, and so is the next one.
# Without NX it takes away the lock of somebody else. PX and EX refuse a number that is not positive, so that a wrong time is an
# error in one form of the command and a success in the other.
#
# Seen: two late clients: SET NX PXAT OK and OK, lock exists 0; over a held lock: SET PXAT OK, lock exists 0;
#       SET PX 0: ERR invalid expire time in 'set' command
set -euo pipefail
folder=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill -9 "$server" || true; wait "$server" 2>/dev/null || true; fi
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
REDIS_PORT=$(node -e "const server = net.createServer().listen(0, '127.0.0.1', () => server.close(console.log(server.address().port)))")
export REDIS_PORT
usr/bin/redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --save '' >log &
server=$!
until [ "$(usr/bin/redis-cli -p "$REDIS_PORT" PING 2>/dev/null)" = PONG ]; do sleep 0.1; done

ask() { usr/bin/redis-cli -p "$REDIS_PORT" "$@"; }
# The clock of the clients is 10 s late, and their locks last 5 s.
end=$((($(date +%s) - 10 + 5) * 1000))
late="two late clients: SET NX PXAT $(ask SET lock ann NX PXAT "$end") and $(ask SET lock ben NX PXAT "$end"), lock exists $(ask EXISTS lock)"
ask SET lock ann PX 60000 >/dev/null
held="over a held lock: SET PXAT $(ask SET lock ben PXAT "$end"), lock exists $(ask EXISTS lock)"
refused="SET PX 0: $(ask SET lock ben PX 0)"

seen=$(printf '%s\n' "$late" "$held" "$refused")
expected="two late clients: SET NX PXAT OK and OK, lock exists 0
over a held lock: SET PXAT OK, lock exists 0
SET PX 0: ERR invalid expire time in 'set' command"
echo "$seen"
if [ "$seen" != "$expected" ]; then
  printf 'This has changed. Expected:\n%s\n' "$expected" >&2
  exit 1
fi
