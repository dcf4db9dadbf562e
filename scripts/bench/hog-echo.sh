#!/usr/bin/env bash
# What promotion is worth: the echo through phux while two busy loops per CPU run.
#
#   scripts/bench/hog-echo.sh [--phux-bin PATH] [--relay-bin PATH] [--keys N] [--rounds N] [--out DIR]
#
# In turn: phux unpromoted, promoted as root (skipped when not root) and promoted as an ordinary
# user. And as the bounds of what promotion can do, as root: `bare`, a shell in a PTY with no
# multiplexer at all, whose echo waits for nothing but the kernel's own worker; and, where the relay
# is given (cargo build --release -p phux --example relay), the least that a client and a server
# can do, both processes under SCHED_FIFO, ahead of all that is not real-time.
#
# The clock itself runs under SCHED_FIFO where that is allowed, so that it is phux's wait that is
# measured and not the clock's. p99 needs 1,000 keys: rounds are pooled. Raw samples are in DIR/raw.jsonl.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
phux=$here/../../target/release/phux
keys=350 rounds=3 out='' relay=''
while (($#)); do
    case $1 in
        --phux-bin) phux=$2; shift 2 ;;
        --relay-bin) relay=$2; shift 2 ;;
        --keys) keys=$2; shift 2 ;;
        --rounds) rounds=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        *) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
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
[[ -z $relay ]] || install -m 755 "$relay" "$bin/relay"

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
    own=(--own-fifo)
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
    configs=(unpromoted promoted-root promoted-user bare)
    [[ -z $relay ]] || configs+=(relay-fifo)
fi
for ((i = 0; i < 2 * $(nproc); i++)); do
    # They and the clock in sessions of their own, as in terminals of their own: where the kernel groups
    # tasks by session (autogroup), the clock would else pay for what shares its group.
    setsid python3 -c 'while True: pass' &
    hogs+=($!)
done

for ((round = 0; round < rounds; round++)); do
    for config in "${configs[@]}"; do
        home=$(mktemp -d /tmp/hog-echo.XXXXXX)
        as=() scheduler=interactive command=()
        case $config in
            bare) command=(sh) ;;
            relay-fifo) command=(chrt --fifo 1 "$bin/relay" sh) ;;
            unpromoted) scheduler=normal ;;
            promoted-user)
                as=("${user[@]}")
                ((${#user[@]})) && chown 65534:65534 "$home"
                ;;
        esac
        ((${#command[@]})) ||
            command=("${as[@]}" "$bin/phux" --scheduler "$scheduler" new -s b -- env 'PS1=$ ' sh)
        setsid -w python3 "$here/pty-echo.py" --json --iters "$keys" --label "$config" "${own[@]}" -- \
            env -i PATH="$PATH" HOME="$home" XDG_RUNTIME_DIR="$home" XDG_STATE_HOME="$home" \
            'PS1=$ ' TERM=xterm-256color "${command[@]}" >> "$out/raw.jsonl" || true
        # The clock only leaves; the session, and with it the server, is still there.
        [[ ! -e $home/phux ]] || env XDG_RUNTIME_DIR="$home" "$bin/phux" kill b
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
