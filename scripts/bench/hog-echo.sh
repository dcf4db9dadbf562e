#!/usr/bin/env bash
# What promotion is worth: the echo through phux while two busy loops per CPU run.
#
#   scripts/bench/hog-echo.sh [--phux-bin PATH] [--keys N] [--rounds N] [--out DIR]
#
# Three servers, in turn: unpromoted, promoted as root (skipped when not root), promoted as an
# ordinary user. The clock itself runs at nice -19 where that is allowed, so that it is phux's wait
# that is measured and not the clock's. p99 needs 1,000 keys: rounds are pooled. Raw samples are in
# DIR/raw.jsonl.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
phux=$here/../../target/release/phux
keys=350 rounds=3 out=
while (($#)); do
    case $1 in
        --phux-bin) phux=$2; shift 2 ;;
        --keys) keys=$2; shift 2 ;;
        --rounds) rounds=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
[[ -x $phux ]] || { echo "no $phux: cargo build --release -p phux" >&2; exit 1; }
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/hog-echo.XXXXXX")}
mkdir -p "$out"
: > "$out/raw.jsonl"
# Where any user can run it from.
bin=$(mktemp -d /tmp/hog-echo-bin.XXXXXX)
chmod 755 "$bin"
install -m 755 "$phux" "$bin/phux"

hogs=()
cleanup() {
    ((${#hogs[@]})) && kill "${hogs[@]}" 2>/dev/null
    rm -rf "$bin"
}
trap cleanup EXIT

own=()
user=()
configs=(unpromoted promoted-user)
if [[ $(id -u) == 0 ]]; then
    own=(--own-nice -19)
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
    configs=(unpromoted promoted-root promoted-user)
fi
for ((i = 0; i < 2 * $(nproc); i++)); do
    python3 -c 'while True: pass' &
    hogs+=($!)
done

for ((round = 0; round < rounds; round++)); do
    for config in "${configs[@]}"; do
        home=$(mktemp -d /tmp/hog-echo.XXXXXX)
        as=() scheduler=interactive
        case $config in
            unpromoted) scheduler=normal ;;
            promoted-user)
                as=("${user[@]}")
                ((${#user[@]})) && chown 65534:65534 "$home"
                ;;
        esac
        python3 "$here/pty-echo.py" --json --iters "$keys" --label "$config" "${own[@]}" -- \
            env -i PATH="$PATH" HOME="$home" XDG_RUNTIME_DIR="$home" XDG_STATE_HOME="$home" \
            TERM=xterm-256color "${as[@]}" "$bin/phux" --scheduler "$scheduler" \
            new -s b -- env 'PS1=$ ' sh >> "$out/raw.jsonl" || true
        # The clock only leaves; the session, and with it the server, is still there.
        env XDG_RUNTIME_DIR="$home" "$bin/phux" kill b
        rm -rf "$home"
    done
done

python3 - "$out/raw.jsonl" <<'PY'
import json, sys
pooled = {}
for line in open(sys.argv[1]):
    result = json.loads(line)
    pooled.setdefault(result["label"], []).extend(result["samples_us"])
p = lambda v, q: sorted(v)[(q * (len(v) - 1) + 50) // 100]
base = p(pooled["unpromoted"], 99)
for label, samples in pooled.items():
    few = "" if len(samples) >= 1000 else "  (fewer than 1,000 keys: p99 is weak)"
    print(f"{label:15} n {len(samples):5}  p50 {p(samples, 50):8.0f} us  p90 {p(samples, 90):8.0f} us  "
          f"p99 {p(samples, 99):8.0f} us  p99 / unpromoted {p(samples, 99) / base:.3f}{few}")
PY
echo "raw samples in $out"
