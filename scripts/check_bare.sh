#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `make demo`, `make test`, `make install` and `make deb` as the README says, in a fresh minimal Debian with only make added:
# a clean clone of the last commit, as root, with the reference data next to it where this machine has them. scripts/setup.sh has to
# install everything else. The installed program has to start, and the packages have to pass scripts/check_deb.sh.
# Needs root, debootstrap and a mirror.
# Usage: scripts/check_bare.sh [demo|test|install|deb|both|all] [SUITE]      (default: both, demo and test, in bookworm)
# Several are separated by commas: demo,install.
#   CKM_BARE_KEEP=FOLDER     keeps the logs there
#   CKM_BARE_TESTS=ARGUMENTS  of ctest, for a part of the tests (default: all)
#   CKM_BARE_SECONDS=3600    limit for each of them
# Exit status 77: not possible here; or the network lacks what apt should install there; or something fails in sid, which is no
# release: that is shown, but is not a failure.
set -eu
cd "$(dirname "$0")/.."
here=$(pwd)
case ${1:-both} in
both) targets="demo test" ;;
all) targets="demo test install deb" ;;
*) targets=$(echo "$1" | tr , ' ') ;;
esac
for target in $targets; do
    case $target in
    demo | test | install | deb) ;;
    *)
        echo "usage: check_bare.sh [demo|test|install|deb|both|all] [SUITE]" >&2
        exit 2
        ;;
    esac
done
suite=${2:-bookworm}
PATH=$PATH:/usr/sbin:/sbin
export PATH
. scripts/bare.sh
. scripts/waited.sh
. scripts/network.sh

skip() {
    echo "check_bare.sh: skipped: $*" >&2
    exit 77
}
bare_possible "$suite" || skip "$bare_reason"
commit=$(LC_ALL=C git rev-parse --short --verify HEAD 2>&1) || case $commit in
*"dubious ownership"*) skip "git does not read $here, which another user owns: git config --global --add safe.directory '$here'" ;;
*) skip "this is not a git checkout, and a clone is what is tried" ;;
esac

work=$(mktemp -d)
cleanup() {
    # What it has started and mounted goes with it; see scripts/bare.sh.
    stop_waited
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

system=$work/system
echo "== a fresh $suite with make"
waited bare_system "$suite" "$system" make >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    skip "debootstrap cannot make a $suite from $bare_mirror, see above"
}
waited bare_inside "$system" apt-get update -qq >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; skip "apt-get update fails there, see above"; }
echo "$(bare_inside "$system" dpkg-query -W | wc -l) packages"
mkdir "$system/work"
git clone -q --no-hardlinks "$here" "$system/work/checkmate"
data=""
if [ -d ../shared ]; then
    data=$(cd ../shared && pwd -P)
    mkdir "$system/work/shared"
fi
echo "commit $commit, $([ -n "$data" ] && echo with || echo without) reference data, $(sh scripts/processor.sh)"

# After `make TARGET`: does what it made work?
works() {
    case $1 in
    install) bare_inside "$system" /usr/local/bin/checkmate --version ;;
    deb) sh scripts/check_deb.sh "$system/work/checkmate/packages" "$suite" ;;
    esac
}

failed=""
unreached=""
for target in $targets; do
    echo "== make $target"
    began=$(date +%s)
    log=$work/$target.log
    status=0
    BARE_BIND=${data:+$data:/work/shared} waited bare_inside "$system" timeout -k 10 "${CKM_BARE_SECONDS:-3600}" \
        make -C /work/checkmate "$target" TESTS="${CKM_BARE_TESTS:-}" >"$log" 2>&1 || status=$?
    [ "$status" -ne 0 ] || works "$target" >>"$log" 2>&1 || status=$?
    [ -z "${CKM_BARE_KEEP:-}" ] || { mkdir -p "$CKM_BARE_KEEP" && cp "$log" "$CKM_BARE_KEEP/"; }
    seconds=$(($(date +%s) - began))
    # Of ctest: the count, what failed, what was skipped and why.
    summary=$(grep -E '^[0-9]+% tests passed|^The following tests|^[[:space:]]+[0-9]+ - |SKIP:' "$log" || true)
    if [ "$status" -eq 0 ]; then
        [ -z "$summary" ] || printf '%s\n' "$summary"
        echo "make $target works: $seconds s"
    else
        [ "$status" -ne 124 ] || echo "make $target: not done after ${CKM_BARE_SECONDS:-3600} s" >&2
        tail -n 100 "$log" >&2
        # What the packages are tried in cannot be made (77); or scripts/setup.sh could not install something.
        lacking="see above"
        if [ "$status" -eq 77 ] || set_up_lacks "$log"; then
            echo "make $target NOT TRIED WHOLE, the network lacks something: $lacking ($seconds s)" >&2
            unreached="$unreached $target"
        else
            printf '%s\n' "$summary" "make $target FAILS (exit status $status, $seconds s)" >&2
            failed="$failed $target"
        fi
    fi
done
[ -z "$failed" ] || {
    echo "check_bare.sh: failed in a bare $suite:$failed" >&2
    case $suite in
    sid | unstable) exit 77 ;;
    esac
    exit 1
}
[ -z "$unreached" ] || skip "the network lacks what these need in a bare $suite:$unreached"
