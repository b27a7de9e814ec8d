#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tries things on bare systems says in one line what is missing or wrong, and leaves nothing behind when it is killed: what it
# started inside is gone, and so are the mounts. That `make demo` works there, continuous integration finds out: it needs the network.
set -eu
cd "$CKM_SOURCE_DIR"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
# expect STATUS TEXT COMMAND...
expect() {
    status=$1 text=$2
    shift 2
    got=0
    "$@" >"$scratch/out" 2>&1 || got=$?
    if [ "$got" -ne "$status" ] || [ "$(wc -l <"$scratch/out")" -ne 1 ] || ! grep -q "$text" "$scratch/out"; then
        echo "'$*' ends with $got and says:"
        cat "$scratch/out"
        echo "expected: $status and one line with '$text'"
        exit 1
    fi
}
expect 2 '^usage: check_bare.sh' sh scripts/check_bare.sh tests
PATH=$PATH:/usr/sbin:/sbin
. scripts/bare.sh
if [ "$(id -u)" -ne 0 ]; then
    expect 77 '^check_bare.sh: skipped: a fresh system needs root$' sh scripts/check_bare.sh demo
    echo "the rest needs root"
    exit 77
fi
bare_apart true 2>/dev/null || { echo "the rest needs to mount, as root in a container may not"; exit 77; }
# Suites that apt has no lists of come from the mirror that this system comes from; a name that is none is said to be so.
if command -v debootstrap >/dev/null; then
    expect 77 '^check_bare.sh: skipped: debootstrap here does not know a suite unknown$' sh scripts/check_bare.sh demo unknown
    bare_possible bookworm && own=$bare_mirror || own=""
    if [ -n "$own" ]; then
        bare_possible trixie && [ "$bare_mirror" = "$own" ] || { echo "trixie: '$bare_mirror', bookworm: '$own' $bare_reason"; exit 1; }
    fi
fi
# A system that is only what a shell needs.
mkdir -p "$scratch/root/proc" "$scratch/root/dev" "$scratch/root/seen" "$scratch/outside"
echo 41 >"$scratch/outside/number"
run() {
    BARE_OPTIONS=--net BARE_BIND="$scratch/outside:/seen" bare_inside "$scratch/root" "$@"
}
# The shell comes with what it links.
for file in /bin/sh $(command -v sleep) $(command -v touch) $(ldd /bin/sh "$(command -v sleep)" "$(command -v touch)" | grep -o '/[^ :)]*' | sort -u); do
    mkdir -p "$scratch/root$(dirname "$file")"
    cp -L "$file" "$scratch/root$file"
done
export CKM_TRIAL=1
# Processes have numbers of their own there, and the first is not the command's: that one would not get signals it has no handler for, and
# timeout of coreutils 9.10 runs nothing then.
seen=$(run /bin/sh -c 'read number </seen/number; echo "$$ $number ${CKM_TRIAL:-none} $HOME"')
[ "${seen#* }" = "41 none /root" ] && [ "${seen%% *}" -gt 1 ] && [ "${seen%% *}" -lt 20 ] || { echo "inside is not as it should be"; exit 1; }
! run /bin/sh -c ': >/seen/number' 2>/dev/null || { echo "the folder that is shown inside can be written to"; exit 1; }
run "$(command -v sleep)" 600 &
caller=$!
# The process whose root is that system.
within() {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/root" 2>/dev/null)" != "$scratch/root" ] || { echo "$process"; return; }
    done
}
waited=0
until sleeping=$(within) && [ -n "$sleeping" ]; do
    waited=$((waited + 1))
    [ "$waited" -lt 100 ] || { echo "nothing has started inside"; exit 1; }
    sleep 0.1
done
kill -KILL "$caller"
wait "$caller" 2>/dev/null || true
waited=0
while [ -e "$sleeping" ]; do
    waited=$((waited + 1))
    [ "$waited" -lt 100 ] || { echo "what was started inside goes on"; exit 1; }
    sleep 0.1
done
! grep -q "$scratch" /proc/mounts || { echo "a mount was left behind"; exit 1; }
echo "a bare system is apart, and goes as a whole"
