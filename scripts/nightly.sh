#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The checks that take too long for every change; .ci/run does one of them each time, in turn.
# Usage: scripts/nightly.sh [PART...]      (default: all)
#   wheel      the wheel and the sdist are made, installed and tried: in bare systems of CKM_WHEEL_SUITES (bookworm trixie sid)
#   packages   the Debian packages are made, and tried in a fresh system (needs root)
#   bare       make demo, test, install and deb in a bare Debian 12 (needs root); CKM_BARE_TARGETS=both: demo and test alone
#   trixie     the same in a bare Debian 13; CKM_TRIXIE_TARGETS=test,install: those alone
#   sid        the same in a bare sid, which may fail
#   versions   the Python package's tests with versions of PyTorch, TensorFlow and Python: as many of scripts/versions.txt as there is time for;
#              CKM_VERSIONS_TURN=N: one of PyTorch and one of TensorFlow alone, which N says
# What the network lacks is no failure: the part says so, and that it was skipped.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- wheel packages bare trixie sid versions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
. scripts/network.sh

# part COMMAND...: its status, but for 77, where it has said what it lacks.
part() {
    status=0
    "$@" || status=$?
    [ "$status" -ne 77 ] || { echo "SKIPPED: see above"; return 77; }
    return "$status"
}

wheel() {
    CKM_WHEEL_TOOLS=$work/wheel-tools part sh scripts/wheel.sh "$work/dist" || return $?
    # shellcheck disable=SC2086 # the suites are words
    sh scripts/check_wheel.sh "$work"/dist/*.whl ${CKM_WHEEL_SUITES:-bookworm trixie sid} || return 1
    CKM_WHEEL_TOOLS=$work/wheel-tools sh scripts/sdist.sh "$work/dist" || return 1
    python3 -m venv "$work/sdist" || return 1
    "$work/sdist/bin/pip" install -q "$work"/dist/*.tar.gz pytest==9.2.0 >"$work/pip.log" 2>&1 || {
        tail -n 40 "$work/pip.log"
        network_lacks "$work/pip.log" || return 1
        echo "SKIPPED: the sdist cannot be installed: the network lacks something: $lacking"
        return 77
    }
    (cd python && "$work/sdist/bin/python" -m pytest -p no:cacheprovider -rs tests/test_program.py tests/test_package.py tests/test_solver.py)
}

packages() {
    git rev-parse --verify -q HEAD >/dev/null || { echo "SKIPPED: packages are made from a commit, and this is not a git checkout"; return 77; }
    [ "$(id -u)" -eq 0 ] || { echo "SKIPPED: a fresh system needs root"; return 77; }
    sh scripts/setup.sh package >"$work/setup.log" 2>&1 || {
        cat "$work/setup.log"
        set_up_lacks "$work/setup.log" || return 1
        echo "SKIPPED: the network lacks something: $lacking"
        return 77
    }
    sh scripts/deb.sh "$work/packages" || return 1
    part sh scripts/check_deb.sh "$work/packages"
}

bare() {
    part sh scripts/check_bare.sh "${CKM_BARE_TARGETS:-all}"
}
trixie() { part sh scripts/check_bare.sh "${CKM_TRIXIE_TARGETS:-all}" trixie; }
sid() { part sh scripts/check_bare.sh all sid; }

versions() { CKM_WHEEL_TOOLS=$work/wheel-tools part sh scripts/versions.sh ${CKM_VERSIONS_TURN:+--turn "$CKM_VERSIONS_TURN"}; }

for name in "$@"; do
    case $name in
    wheel | packages | bare | trixie | sid | versions) ;;
    *) echo "usage: nightly.sh [wheel|packages|bare|trixie|sid|versions]..." >&2; exit 2 ;;
    esac
done
for name in "$@"; do
    echo "== $name"
    status=0
    $name || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || { echo "nightly.sh: $name fails" >&2; exit 1; }
done
