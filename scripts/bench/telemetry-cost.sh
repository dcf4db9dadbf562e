#!/usr/bin/env bash
# What always-on telemetry costs: phux as it is against phux with recording and probes compiled
# out, in one run, in turn. Goal: echo p50 ratio <= 1.02.
#
#   scripts/bench/telemetry-cost.sh [--keys N] [--rounds N] [--out DIR]
#
# Raw samples are in DIR/raw.jsonl.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
keys=200 rounds=10 out=
while (($#)); do
    case $1 in
        --keys) keys=$2; shift 2 ;;
        --rounds) rounds=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/telemetry-cost.XXXXXX")}
mkdir -p "$out"
: > "$out/raw.jsonl"

cd "$root"
cargo build --release -p phux
# Not into the same directory: each build would undo the other one.
cargo build --release -p phux --features no-telemetry --target-dir target/no-telemetry
declare -A bin=([with]=target/release/phux [without]=target/no-telemetry/release/phux)

for ((round = 0; round < rounds; round++)); do
    order=(with without)
    ((round % 2)) && order=(without with)
    for label in "${order[@]}"; do
        home=$(mktemp -d /tmp/telemetry-cost.XXXXXX)
        python3 "$here/pty-echo.py" --json --iters "$keys" --label "$label" -- \
            env -i PATH="$PATH" HOME="$home" XDG_RUNTIME_DIR="$home" XDG_STATE_HOME="$home" \
            TERM=xterm-256color "$root/${bin[$label]}" new -s b -- env 'PS1=$ ' sh >> "$out/raw.jsonl"
        # The clock only leaves; the session, and with it the server, is still there.
        env XDG_RUNTIME_DIR="$home" "$root/${bin[$label]}" kill b
        rm -rf "$home"
    done
done

python3 - "$out/raw.jsonl" <<'PY'
import json, statistics, sys
rounds = {"with": [], "without": []}
for line in open(sys.argv[1]):
    result = json.loads(line)
    rounds[result["label"]].append(result["p50_us"])
pairs = [a / b for a, b in zip(rounds["with"], rounds["without"])]
print("echo p50 by round, with:   ", " ".join(f"{v:.0f}" for v in rounds["with"]), "us")
print("echo p50 by round, without:", " ".join(f"{v:.0f}" for v in rounds["without"]), "us")
print(f"ratio of p50, median of {len(pairs)} pairs: {statistics.median(pairs):.3f}"
      f"  (from {min(pairs):.3f} to {max(pairs):.3f})")
PY
echo "raw samples in $out"
