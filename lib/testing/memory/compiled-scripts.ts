// Written by `npm run compile:scripts` from the scripts in lib/redis; not to be edited.
// @ts-nocheck
import type { LuaScript } from './lua-runtime.ts';

export const join: LuaScript = (R, $KEYS, $ARGV, $start) => {{
let $K = $KEYS, $A = $ARGV;
let $W = R.tonumber($A[1]), $R = $A[2];
let $server = R.call("INFO", "server"), $replication = R.call("INFO", "replication");
let $reign = (R.text(R.match($server, "run_id:(%w+)")[0]) + R.text(R.or(R.match($replication, "master_replid:(%w+)")[0], () => "")));
let $time = R.call("TIME");
let $now = ((R.number($time[1]) * 1000) + R.floor((R.number($time[2]) / 1000)));
let $before = R.or(R.call("GET", $K[1]), () => "");
let [$lowest, $highest, $words] = R.match($before, "^(%d+)-(%d+) (.*)$");
let [$voteAfter, $markerReign, $markerW, $markerR, $salts, $more] = R.match(R.or($words, () => ""), "^(%d+) (%w+) (%d+) (%d+) (%S+)(.*)$");
let $isOurs = ($markerReign === $reign);
let $isDisjoint = R.and($lowest, () => ((R.tonumber($lowest) > R.tonumber($A[4])) || (R.tonumber($highest) < R.tonumber($A[3]))));
if ((R.isTrue($isDisjoint) || (R.isTrue($isOurs) && ($markerR !== $R)))) {
return [[null, -5, R.tonumber($lowest), R.tonumber($highest), R.or(R.tonumber($markerR), () => 0)]]; }
if (R.isTrue($isOurs)) {
;[$voteAfter, $markerW] = [R.tonumber($voteAfter), R.tonumber($markerW)];
$W = R.max($W, $markerW);
if (((R.number($voteAfter) - R.number($now)) > $markerW)) {
$voteAfter = (R.number($now) + R.number($W)); } else {
$voteAfter = ((R.number($voteAfter) - R.number($markerW)) + R.number($W)); } } else {
if ((R.sub(R.or($markerReign, () => ""), 1, 40) !== R.sub($reign, 1, 40))) {
$salts = "-"; }
;[$voteAfter, $more] = [(R.number($now) + R.number($W)), ""]; }
if (($A[7] !== "")) {
$salts = ("-" + R.sub((R.text($A[6]) + ("=" + (R.text($A[7]) + ("," + R.gsub(R.sub($salts, 2), (R.text($A[6]) + "=%w+,"), ""))))), 1, 136)); }
let $marker = R.format("%s-%s %.0f %s %.0f %s %s%s", $A[3], $A[4], $voteAfter, $reign, $W, $R, $salts, $more);
if (($marker !== $before)) {
R.call("SET", $K[2], "");
R.call("DEL", $K[2]);
R.call("SET", $K[1], $marker); }
let $lines = [null], $others = [null];
for (const [$ms, $configuration] of R.gmatch(R.or(R.call("GET", $K[3]), () => ""), "(%d+) ([^\n]+)")) {
if ((($configuration !== $A[5]) && ((R.number($now) - R.number($ms)) < 86400000))) {
;[$lines[(R.length($lines) + 1)], $others[(R.length($others) + 1)]] = [(R.text($ms) + (" " + R.text($configuration))), $configuration]; } }
if ((R.length($lines) > 15)) {
R.remove($lines, 1); }
$lines[(R.length($lines) + 1)] = (R.format("%.0f", $now) + (" " + R.text($A[5])));
let $written = R.pcall("SET", $K[3], R.concat($lines, "\n"), "PX", 86400000);
if ((R.isTrue($written.err) && R.isTrue(R.find($written.err, "READONLY", 1, true)))) {
return [$written]; }
let $start = (R.sub($reign, 1, 8) + R.text(R.or(R.and($A[9], () => R.sub($reign, 41)), () => "")));
let $joined = [null, 1, R.max(0, (R.number($voteAfter) - R.number($now))), $start, R.or(R.match($salts, (R.text($A[6]) + "=(%w+)"))[0], () => ""), $others];
if ((($A[8] !== "") && ($A[8] !== R.sub($reign, 1, 8)))) {
let $up = R.or(R.and($isOurs, () => (R.number($now) - (R.number($voteAfter) - R.number($W)))), () => 0);
if (R.isTrue(R.find($replication, "master_replid2:0+\r"))) {
$up = R.max($up, ((R.number(R.or(R.match($server, "uptime_in_seconds:(%d+)")[0], () => 1)) * 1000) - 1000)); }
if (($up > 0)) {
$joined[6] = $up; } }
return [$joined]; }
return []; };

export const acquire: LuaScript = (R, $KEYS, $ARGV, $start) => {{
let $K = $KEYS, $A = $ARGV;
let $holder = $A[2], $ttl = $A[3];
let $values = R.call("MGET", ...R.unpack($K));
let $gate = $values[2], $floor = $values[4], $gateEnd, $floorEnd, $p, $now, $clock, $voteAfter, $runId, $W, $R;
let $isPlain = (((R.length($K) === 4) && !R.isTrue($values[3])) && (!R.isTrue($floor) || ((R.length($floor) === 33) && ($A[1] > $floor))));
if ((((((R.isTrue($isPlain) && R.isTrue($gate)) && R.isTrue($values[1])) && ($A[1] > R.sub($gate, 1, 16))) && ($A[1] <= R.sub($gate, 17, 32))) && ($start === R.sub($gate, 33, 40)))) {
$floorEnd = R.sub($gate, 41, 53);
if ((R.sub($gate, 54) !== $ttl)) {
$floorEnd = ((R.number($floorEnd) - R.number(R.sub($gate, 54))) + R.number($ttl)); }
$gate = undefined; } else {
;[$voteAfter, $runId, $W, $R] = R.match(R.or($values[1], () => ""), "^%S+ (%d+) (%w+) (%d+) (%d+)");
if ((!R.isTrue($voteAfter) || (R.sub($runId, 1, 8) !== $start))) {
return [[null, -4]]; }
let $time = R.call("TIME");
$now = ((R.number($time[1]) * 1000000) + R.number($time[2]));
let $wait = (R.number($voteAfter) - (R.number($now) / 1000));
$W = R.tonumber($W);
if (($wait > $W)) {
return [[null, -4]]; }
if (($wait > 0)) {
return [[null, -2, R.ceil($wait)]]; }
;[$p, $clock] = [R.tonumber($A[1]), (R.number($now) - (R.number($R) * 500))];
let $afterRestart = ((R.number($voteAfter) * 1000) - (R.number($W) * 500));
if ((($W > 0) && ($afterRestart > $clock))) {
$clock = $afterRestart; }
$floorEnd = ((R.number($ttl) + R.number($R)) + R.ceil((R.max($p, $now) / 1000)));
$isPlain = R.and(R.and($isPlain, () => ($p > $clock)), () => ($p <= (R.number($now) + 86400000000)));
let $high = (R.number($now) + (R.number($R) * 125));
$gateEnd = (R.floor((R.number($now) / 1000)) + R.ceil((R.number($R) / 16)));
let $low = R.max($clock, (R.number($voteAfter) * 1000), (((R.number($gateEnd) + 1) * 1000) - (R.number($R) * 500)));
$gate = (((($p > $low) && ($p <= $high)) && ($now >= 1000000000000000)) && R.format("%016.0f%016.0f%s%.0f%s", $low, $high, $start, ((R.number($ttl) + R.number($R)) + R.ceil((R.number($high) / 1000))), $ttl)); }
if (R.isTrue($isPlain)) {
R.call("SET", $K[4], (R.text($A[1]) + (" " + R.sub(R.or($floor, () => "0000000000000000"), 1, 16))), "PXAT", $floorEnd);
if (R.isTrue(R.call("SET", $K[3], $holder, "PX", $ttl, "NX"))) {
if (R.isTrue($gate)) {
R.pcall("SET", $K[2], $gate, "PXAT", $gateEnd); }
return [1]; }
if (R.isTrue($floor)) {
R.call("SET", $K[4], $floor, "KEEPTTL"); } else {
R.call("DEL", $K[4]); }
return [R.errorReply(("WRONGTYPE " + (R.text($K[3]) + " holds data that is no lock")))]; }
let $maxF = 0, $highest = "0", $limit = 0, $first = undefined;
let $kept = ("#" + R.sub($holder, 1, 8));
for (let $i = 3, end = R.length($K); $i <= end; $i += 2) {
let $isKept = ($values[$i] === $kept);
if (R.isTrue($isKept)) {
$values[$i] = false; }
let $other = $values[$i], $digits = R.sub(R.or($values[(R.number($i) + 1)], () => "0"), 1, 16);
let $F = R.tonumber($digits);
if (($F > $maxF)) {
;[$maxF, $highest] = [$F, $digits]; }
if ((R.isTrue($other) && ($other !== $holder))) {
$first = R.or($first, () => $i); } else if (((!R.isTrue($other) && !R.isTrue($isKept)) && (R.call("EXISTS", $K[$i]) === 1))) {
return [R.errorReply(("WRONGTYPE " + (R.text($K[$i]) + " holds data that is no lock")))]; } else {
if ((R.isTrue($other) && ($F === $p))) {
$F = (R.number($p) - 1); }
if (($F > $limit)) {
$limit = $F; } } }
if (R.isTrue($first)) {
let $pttl = R.call("PTTL", $K[$first]);
return [[null, 0, R.or((($pttl < -1) && 0), () => $pttl), $highest, $values[$first], ((R.number($first) - 3) / 2)]]; }
if ((($p <= $limit) || ($p <= $clock))) {
return [[null, -1, R.format("%.0f", $limit), $now, R.or((($p <= $clock) && 1), () => 0)]]; }
if (($p > R.max((R.number($now) + 86400000000), (R.number($maxF) + 1000000)))) {
return [[null, -3, $now, $highest]]; }
for (let $i = 3, end = R.length($K); $i <= end; $i += 2) {
let $before = $values[(R.number($i) + 1)], $prev = "0000000000000000";
if (R.isTrue($before)) {
if (R.isTrue($values[$i])) {
$prev = R.sub($before, 18, 33); } else {
$prev = R.sub($before, 1, 16); } }
R.call("SET", $K[(R.number($i) + 1)], (R.text($A[1]) + (" " + R.text($prev))), "PXAT", $floorEnd);
R.call("PSETEX", $K[$i], $ttl, $holder); }
return [1]; }
return []; };

export const extend: LuaScript = (R, $KEYS, $ARGV, $start) => {{
if (($start === "")) {
return [[null, -4]]; }
let $K = $KEYS, $A = $ARGV;
let $T = R.tonumber($A[1]), $holder = $A[2], $ttl = R.tonumber($A[3]);
let $values = R.call("MGET", ...R.unpack($K));
let $floors = [null], $missing = 0;
for (let $i = 2, end = R.length($K); $i <= end; $i += 2) {
let $F = R.tonumber(R.sub(R.or($values[(R.number($i) + 1)], () => "0"), 1, 16));
$floors[$i] = (R.number($F) + 0);
let $isKept = R.and(R.and($values[$i], () => (R.length($values[$i]) === 9)), () => (R.sub($values[$i], 1, 1) === "#"));
if (R.isTrue($isKept)) {
$values[$i] = false; }
if (($values[$i] !== $holder)) {
if (((R.isTrue($values[$i]) || ($F > $T)) || (!R.isTrue($isKept) && (R.call("EXISTS", $K[$i]) === 1)))) {
return [[null, 0, R.or(R.and(R.and($values[$i], () => (R.sub($values[$i], 1, 8) === "revoked:")), () => $values[$i]), () => undefined)]]; }
$missing = (R.number($missing) + 1); } }
let $time = R.call("TIME");
let $now = ((R.number($time[1]) * 1000000) + R.number($time[2]));
let [$voteAfter, $runId, $W, $R] = R.match(R.or($values[1], () => ""), "^%S+ (%d+) (%w+) (%d+) (%d+)");
if (($missing > 0)) {
if ((!R.isTrue($voteAfter) || (R.sub($runId, 1, 8) !== $start))) {
return [[null, -4]]; }
let $wait = (R.number($voteAfter) - (R.number($now) / 1000));
if (($wait > R.tonumber($W))) {
return [[null, -4]]; }
if (($wait > 0)) {
return [[null, -2, R.ceil($wait)]]; } }
for (let $i = 2, end = R.length($K); $i <= end; $i += 2) {
let $F = $floors[$i], $lockLeft = R.call("PTTL", $K[$i]), $floorLeft = R.call("PTTL", $K[(R.number($i) + 1)]);
let $keep = (R.number($ttl) + R.number(R.or($R, () => R.max(0, (R.number($floorLeft) - R.max(0, $lockLeft))))));
let $ahead = (R.max($F, $T) - R.number($now));
if (($ahead > 0)) {
$keep = (R.number($keep) + R.ceil((R.number($ahead) / 1000))); }
if ((!R.isTrue($values[$i]) || ($F < $T))) {
R.call("PSETEX", $K[(R.number($i) + 1)], R.max($keep, $floorLeft), (R.text($A[1]) + (" " + R.text($A[1])))); } else if ((($floorLeft >= 0) && ($floorLeft < $keep))) {
R.call("PEXPIRE", $K[(R.number($i) + 1)], $keep); }
if (!R.isTrue($values[$i])) {
R.call("PSETEX", $K[$i], $ttl, $holder); } else if ((($lockLeft !== -1) && ($lockLeft < $ttl))) {
R.call("PEXPIRE", $K[$i], $ttl); } }
return [[null, 1, $missing]]; }
return []; };

export const release: LuaScript = (R, $KEYS, $ARGV, $start) => {{
let $K = $KEYS, $A = $ARGV;
const $leave = ($queue, $mark, $but) => {
for (const [$_, $member] of R.ipairs(R.pcall("ZRANGE", $queue, 0, -1))) {
let $isPlace = ((R.sub($member, 1, 8) === $mark) && ($member !== $but));
if ((R.isTrue($isPlace) && (R.pcall("ZADD", $queue, "-inf", $member) === 0))) {
R.pcall("ZPOPMIN", $queue); } }
return []; };
const $nextWaiter = ($lock) => {
let $queue = (R.text($lock) + "#queue");
while (true) {
let $head = R.pcall("ZPOPMIN", $queue)[1];
if (!R.isTrue($head)) {
return [0]; }
let [$mark, $grace, $channel] = R.match($head, "^(%S+) (%d+) (.+)$");
let $reached = R.and($channel, () => R.pcall("PUBLISH", $channel, ("0 " + R.text($lock))));
let $isMute = (R.type($reached) === "table");
if ((R.isTrue($isMute) || (R.isTrue($reached) && ($reached > 0)))) {
$grace = R.or(R.and($isMute, () => 500), () => R.min($grace, 200));
R.pcall("SET", $lock, ("#" + R.text($mark)), "PX", $grace);
let $second = R.pcall("ZRANGE", $queue, 0, 0)[1];
$channel = R.and($second, () => R.match($second, "^%S+ %d+ (.+)$")[0]);
if (R.isTrue($channel)) {
R.pcall("PUBLISH", $channel, (R.text($grace) + (" " + R.text($lock)))); }
return [1]; } }
return []; };
let $holder = $A[1], $granted = $A[2], $pass = $A[3];
let $mark = R.sub(R.match($holder, "^#?(.*)")[0], 1, 8);
let $leaves = (($granted === "1") && ($pass === "1")), $keep = R.tonumber(...R.match($pass, "^keep (%d+)")), $deleted = 0;
for (let $i = 1, end = R.length($K); $i <= end; $i += R.or((($granted === "1") && 1), () => 2)) {
let $queue = (R.text($K[$i]) + "#queue"), $value = R.call("GET", $K[$i]);
let $isOwn = R.or((($value === $holder) || R.and($leaves, () => ($value === ("#" + R.text($mark))))), () => ($value === ("revoked:by a newer call, in place of " + R.text($holder))));
if (R.isTrue($keep)) {
if ((R.isTrue($isOwn) && (R.call("PTTL", $K[$i]) > $keep))) {
R.call("PEXPIRE", $K[$i], $keep); }
$isOwn = false; }
if (R.isTrue($isOwn)) {
if (($granted !== "1")) {
let $floor = R.call("GET", $K[(R.number($i) + 1)]);
if ((R.isTrue($floor) && (R.length($floor) === 33))) {
let $prev = R.sub($floor, 18);
if (($prev === "0000000000000000")) {
R.call("DEL", $K[(R.number($i) + 1)]); } else {
R.pcall("SET", $K[(R.number($i) + 1)], (R.text($prev) + (" " + R.text($prev))), "KEEPTTL"); } } }
R.call("DEL", $K[$i]);
if (($value === $holder)) {
$deleted = (R.number($deleted) + 1); } }
if (((R.isTrue($isOwn) || R.isTrue($leaves)) && (R.call("EXISTS", $queue) === 1))) {
if (R.isTrue($leaves)) {
$leave($queue, $mark); }
if ((R.isTrue($isOwn) && ($pass === "1"))) {
$nextWaiter($K[$i]); } else if ((R.isTrue($isOwn) && ($granted === "1"))) {
R.pcall("SET", $K[$i], ("#" + R.text($mark)), "PX", 20); } } }
return [$deleted]; }
return []; };

export const wait: LuaScript = (R, $KEYS, $ARGV, $start) => {{
let $lock = $KEYS[1], $queue = (R.text($KEYS[1]) + "#queue"), $me = $ARGV[1];
const $leave = ($queue, $mark, $but) => {
for (const [$_, $member] of R.ipairs(R.pcall("ZRANGE", $queue, 0, -1))) {
let $isPlace = ((R.sub($member, 1, 8) === $mark) && ($member !== $but));
if ((R.isTrue($isPlace) && (R.pcall("ZADD", $queue, "-inf", $member) === 0))) {
R.pcall("ZPOPMIN", $queue); } }
return []; };
const $nextWaiter = ($lock) => {
let $queue = (R.text($lock) + "#queue");
while (true) {
let $head = R.pcall("ZPOPMIN", $queue)[1];
if (!R.isTrue($head)) {
return [0]; }
let [$mark, $grace, $channel] = R.match($head, "^(%S+) (%d+) (.+)$");
let $reached = R.and($channel, () => R.pcall("PUBLISH", $channel, ("0 " + R.text($lock))));
let $isMute = (R.type($reached) === "table");
if ((R.isTrue($isMute) || (R.isTrue($reached) && ($reached > 0)))) {
$grace = R.or(R.and($isMute, () => 500), () => R.min($grace, 200));
R.pcall("SET", $lock, ("#" + R.text($mark)), "PX", $grace);
let $second = R.pcall("ZRANGE", $queue, 0, 0)[1];
$channel = R.and($second, () => R.match($second, "^%S+ %d+ (.+)$")[0]);
if (R.isTrue($channel)) {
R.pcall("PUBLISH", $channel, (R.text($grace) + (" " + R.text($lock)))); }
return [1]; } }
return []; };
let $ticket = $ARGV[2], $value = R.call("GET", $lock);
let [$mark] = R.match($me, "^%S+");
let $kept = ("#" + R.text($mark));
if (($ticket === "0")) {
let $time = R.call("TIME");
$ticket = R.format("%.0f", ((R.number($time[1]) * 1000000) + R.number($time[2]))); }
if (($value === $kept)) {
return [[null, $ticket, -1]]; }
let $isKept = R.and($value, () => (R.sub($value, 1, 1) === "#"));
let $wasFirst = R.and($isKept, () => (R.sub(R.or(R.call("ZRANGE", $queue, 0, 0)[1], () => ""), 1, 8) === $mark));
if ((R.call("ZCARD", $queue) < 1000)) {
if ((R.call("ZADD", $queue, $ticket, $me) === 1)) {
$leave($queue, $mark, $me); }
if ((R.call("PTTL", $queue) < R.tonumber($ARGV[3]))) {
R.call("PEXPIRE", $queue, $ARGV[3]); } }
let $isNamer = (!R.isTrue($value) && ($nextWaiter($lock)[0] === 1));
if (R.isTrue($isNamer)) {
$value = R.call("GET", $lock); }
if ((!R.isTrue($value) || (R.sub($value, 1, 8) === $mark))) {
return [[null, $ticket, 0]]; }
if (($value === $kept)) {
return [[null, $ticket, -1]]; }
let $left = R.call("PTTL", $lock);
let $isBehind = R.and(R.and($isKept, () => !R.isTrue($wasFirst)), () => (R.call("ZRANGE", $queue, 0, 0)[1] !== $me));
return [[null, $ticket, R.or(R.and(R.or($isBehind, () => ($left === -1)), () => 86400000), () => R.max(1, $left))]]; }
return []; };

export const inspect: LuaScript = (R, $KEYS, $ARGV, $start) => {{
let $K = $KEYS;
let $values = R.call("MGET", ...R.unpack($K));
let $maxF = 0, $highest = "0", $pttl = 0, $holder = false;
for (let $i = 1, end = R.length($K); $i <= end; $i += 2) {
let $digits = R.sub(R.or($values[(R.number($i) + 1)], () => "0"), 1, 16);
let $F = R.tonumber($digits);
if (($F > $maxF)) {
;[$maxF, $highest] = [$F, $digits]; }
if ((R.isTrue($values[$i]) && !((R.length($values[$i]) === 9) && (R.sub($values[$i], 1, 1) === "#")))) {
let $left = R.call("PTTL", $K[$i]);
if (($left < -1)) {
$left = 0; }
if (((!R.isTrue($holder) || ($left === -1)) || (($pttl !== -1) && ($left > $pttl)))) {
;[$pttl, $holder] = [$left, $values[$i]]; } } else if ((!R.isTrue($values[$i]) && (R.call("EXISTS", $K[$i]) === 1))) {
return [R.errorReply(("WRONGTYPE " + (R.text($K[$i]) + " holds data that is no lock")))]; } }
return [[null, $pttl, $highest, $holder, R.and($holder, () => R.call("MGET", (R.text($ARGV[1]) + R.sub($holder, 1, 8)))[1])]]; }
return []; };

export const revoke: LuaScript = (R, $KEYS, $ARGV, $start) => {{
let $lock = $KEYS[1], $A = $ARGV;
let $value = R.call("GET", $lock), $c = R.tonumber($A[5]);
if ((($value !== $A[1]) && !(R.isTrue($c) && ($value === $A[2])))) {
return [false]; }
let $left = R.call("PTTL", $lock), $least = R.tonumber($A[3]), $floor = R.call("GET", $KEYS[2]);
if ((($left === -1) || !R.isTrue($floor))) {
return [R.errorReply(("WRONGTYPE " + (R.text($lock) + " holds data that is no lock")))]; }
if (R.isTrue($c)) {
let $F = R.tonumber(R.sub($floor, 1, 16)), $time = R.call("TIME");
let $now = ((R.number($time[1]) * 1000000) + R.number($time[2]));
if (($c < (R.number($F) + 2))) {
if ((($c === $F) && ($value === $A[2]))) {
R.pcall("PUBLISH", $A[4], ("-1 " + R.text($lock))); }
return [[null, -1, R.format("%.0f", $F)]]; }
if (($c > R.max((R.number($now) + 86400000000), (R.number($F) + 1000000)))) {
return [[null, -1, R.format("%.0f", R.max($now, $F))]]; }
R.call("SET", $KEYS[2], (R.text($A[5]) + (" " + R.text($A[5]))), "KEEPTTL"); }
R.call("SET", $lock, $A[2], "KEEPTTL");
R.pcall("PUBLISH", $A[4], ("-1 " + R.text($lock)));
if (($left >= $least)) {
return [$left]; }
R.call("PEXPIRE", $lock, $least);
return [$least]; }
return []; };
