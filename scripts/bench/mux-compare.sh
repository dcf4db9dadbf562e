#!/usr/bin/env bash
# phux, tmux, screen and, where installed, zellij, side by side on this machine in this run.
#
#   scripts/bench/mux-compare.sh [--phux-bin PATH] [--out DIR] [--rounds N] [--key-samples N]
#                                [--seq-lines N] [--relay-bin PATH] [--mux NAME]...
#
# Measured, in rounds that take each multiplexer in turn for some 20 keys, so that what else the
# machine does hits all of them alike: echo of a key, attach, a flood of lines with CPU time, memory
# of the server after it. Each program gets an empty environment and a socket of its own, and is
# ended after. DIR gets raw.jsonl (every sample), summary.json and commands.txt; the table goes to
# standard output. Figures of one run compare with each other, and with nothing else.
#
# The relay (cargo build --release -p phux --example relay) takes part where its path is given: the
# least that a client and a server can do, and so the floor for the echo of phux.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
phux=$root/target/release/phux
out=
rounds=5 keys=200 lines=300000 relay=
muxes=()

while (($#)); do
    case $1 in
        --phux-bin) phux=$(realpath "$2"); shift 2 ;;
        --out) out=$2; shift 2 ;;
        --rounds) rounds=$2; shift 2 ;;
        --key-samples) keys=$2; shift 2 ;;
        --seq-lines) lines=$2; shift 2 ;;
        --relay-bin) relay=$(realpath "$2"); shift 2 ;;
        --mux) muxes+=("$2"); shift 2 ;;
        *) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done

[[ -x $phux ]] || { echo "no $phux: cargo build --release -p phux" >&2; exit 1; }
if ((${#muxes[@]} == 0)); then
    muxes=(phux)
    for name in tmux screen zellij; do
        if command -v "$name" >/dev/null; then muxes+=("$name"); else echo "$name: not installed" >&2; fi
    done
fi
[[ -z $relay ]] || muxes+=(relay)
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/mux-compare.XXXXXX")}
mkdir -p "$out"
exec python3 "$here/mux_compare.py" --phux-bin "$phux" ${relay:+--relay-bin "$relay"} --out "$out" --rounds "$rounds" \
    --key-samples "$keys" --seq-lines "$lines" "${muxes[@]}"
