#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A script that is told to end takes with it what it waits for, and all that this has started.
set -eu
cd "$CKM_SOURCE_DIR"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/script" <<'END'
. scripts/waited.sh
trap stop_waited EXIT
trap 'exit 1' HUP INT TERM
waited setsid sh -c 'sleep 600 & echo $! >"$0.part"; mv "$0.part" "$0"; sleep 600; true' "$1"
END
# gone PROCESS: it ends within some seconds. A process that is over but not yet waited for counts as gone.
gone() {
    tries=0
    while grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || return 1
        sleep 0.1
    done
}
for shell in sh bash; do
    command -v $shell >/dev/null || continue
    # A group of its own, so that what is told to end is the script alone.
    setsid $shell "$scratch/script" "$scratch/inner" &
    script=$!
    tries=0
    until [ -e "$scratch/inner" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "$shell: nothing was started"; exit 1; }
        sleep 0.1
    done
    inner=$(cat "$scratch/inner")
    kill -s TERM "$script"
    status=0
    wait "$script" || status=$?
    [ "$status" -eq 1 ] || { echo "$shell: a script that was told to end says $status"; exit 1; }
    gone "$inner" || { kill -s KILL "$inner"; echo "$shell: what was started goes on"; exit 1; }
    rm "$scratch/inner"
done
echo "scripts that wait can be ended"
