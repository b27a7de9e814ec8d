#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the Python package with each of a list of versions (scripts/versions.txt), each in a virtual environment of its
# own with the wheel, and prints a table of what passes. Every file of tests runs by itself, and what has a result is not run again:
# so a list can be tried in parts, night by night.
# Usage: scripts/versions.sh [WORD...]      (default: every line of the list; else those that have one of the words, such as torch==2.15.0)
#   CKM_VERSIONS=build/versions     results, one folder a line; to begin anew, delete it
#   CKM_VERSIONS_TESTS="FILE..."    of python/tests, such as test_torch.py (default: those that are for the line's framework)
#   CKM_VERSIONS_SECONDS=28800      no file is begun after that, and only the table is printed with 0
#   CKM_VERSIONS_WHEEL=FILE         the wheel (default: scripts/wheel.sh makes it)
#   CKM_VERSIONS_KEEP=1             keeps the environments, of some GB each
# A Python is looked for as pythonX.Y; a line is left out, and the table says so, where there is none or pip cannot install it.
# Exit status 1 when a test fails.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
results=${CKM_VERSIONS:-build/versions}
seconds=${CKM_VERSIONS_SECONDS:-28800}
mkdir -p "$results"
results=$(cd "$results" && pwd)
began=$(date +%s)
work=$(mktemp -d)
. scripts/waited.sh
trap 'stop_waited; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

time_left() { [ $(($(date +%s) - began)) -lt "$seconds" ]; }
# Of this machine's settings none decides what is tried.
unset PYTHONPATH PYTHONHOME CHECKMATE_LIBRARY CHECKMATE_PROGRAM

# find_python X.Y: sets $python to one that can make an environment.
find_python() {
    for python in $(which -a "python$1" 2>/dev/null) "$HOME/.pyenv/versions/$1".*/bin/python; do
        ! "$python" -c "import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null || return 0
    done
    return 1
}

# tests_of PACKAGES: the files of tests for them.
tests_of() {
    case $1 in
    torch*) (cd python/tests && ls test_*.py | grep -v '^test_tf2') ;;
    *) (cd python/tests && ls test_tf2*.py) ;;
    esac
}

# folder_of PACKAGES PYTHON: the line's; env takes what has an "=" in its name for a variable.
folder_of() { echo "$results/$(echo "$1" | sed 's/==/-/g')-python$2"; }

# make_environment FOLDER: with $python, $packages and the wheel, unless it is there. Else says why not, in FOLDER/left_out.
make_environment() {
    rm -f "$1/left_out"
    [ ! -x "$1/venv/bin/pytest" ] || return 0
    if "$python" -m venv --clear "$1/venv" </dev/null >"$1/pip.log" 2>&1 &&
        waited setsid "$1/venv/bin/pip" install -q --disable-pip-version-check $(echo "$packages" | tr , ' ') pytest==9.2.0 >"$1/pip.log" 2>&1 &&
        "$1/venv/bin/pip" install -q --no-deps --disable-pip-version-check "$wheel" </dev/null >"$1/pip.log" 2>&1; then
        return 0
    fi
    grep -E '^ERROR' "$1/pip.log" | tail -n 1 >"$1/left_out" || true
    [ -s "$1/left_out" ] || tail -n 1 "$1/pip.log" >"$1/left_out"
    rm -rf "$1/venv"
    return 1
}

# run_file FOLDER FILE: its result, "PASSED FAILED SKIPPED DATE COMMIT", goes to FOLDER/FILE.result, what pytest says to FOLDER/FILE.log.
run_file() {
    status=0
    waited setsid env -C python TF_CPP_MIN_LOG_LEVEL=3 "$1/venv/bin/python" -m pytest -p no:cacheprovider -rfEs "tests/$2" >"$1/$2.log" 2>&1 || status=$?
    summary=$(tail -n 1 "$1/$2.log")
    count() { echo "$summary" | sed -n "s/.*[^0-9]*\b\([0-9][0-9]*\) $1.*/\1/p" | grep . || echo 0; }
    failed=$(($(count failed) + $(count error)))
    # A run that dies is a failure, whatever it counted; status 5 is a file that skips itself as a whole.
    [ "$status" -eq 0 ] || [ "$status" -eq 5 ] || [ "$failed" -gt 0 ] || failed=1
    echo "$(count passed) $failed $(count skipped) $(date +%Y-%m-%d) $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo -)" >"$1/$2.result"
}

# lines of the list that are asked for: PACKAGES PYTHON.
grep -v -e '^#' -e '^$' scripts/versions.txt >"$work/all"
for word in "$@"; do
    grep -F -e "$word" "$work/all" >>"$work/list" || { echo "versions.sh: no line of scripts/versions.txt has $word" >&2; exit 2; }
done
[ $# -gt 0 ] || cp "$work/all" "$work/list"

wheel=${CKM_VERSIONS_WHEEL:-}
if [ -z "$wheel" ] && [ "$seconds" -gt 0 ]; then
    sh scripts/wheel.sh "$work/dist" >&2
    wheel=$(echo "$work"/dist/*.whl)
fi
while read -r packages version; do
    folder=$(folder_of "$packages" "$version")
    mkdir -p "$folder"
    time_left || break
    find_python "$version" || { echo "no Python $version here" >"$folder/left_out"; continue; }
    for file in ${CKM_VERSIONS_TESTS:-$(tests_of "$packages")}; do
        [ ! -e "$folder/$file.result" ] || continue
        time_left || break
        make_environment "$folder" || break
        run_file "$folder" "$file"
        echo "$packages, Python $version: $file: $(cat "$folder/$file.result")" >&2
    done
    [ -n "${CKM_VERSIONS_KEEP:-}" ] || rm -rf "$folder/venv"
done <"$work/list"

echo "| packages | Python | files | passed | failed | skipped | failures in | tried |"
echo "|---|---|---|---|---|---|---|---|"
failures=0
while read -r packages version; do
    folder=$(folder_of "$packages" "$version")
    of=$(tests_of "$packages" | wc -l)
    row=$(cat "$folder"/*.result 2>/dev/null | awk '{ files++; passed += $1; failed += $2; skipped += $3; if ($4 > date) date = $4 }
        END { if (files) printf "%d %d %d %d %s", files, passed, failed, skipped, date }')
    if [ -z "$row" ]; then
        echo "| $(echo "$packages" | sed 's/==/ /g; s/,/, /g') | $version | 0 of $of | | | | not tried: $(cat "$folder/left_out" 2>/dev/null || echo "no time") | |"
        continue
    fi
    in=$(awk '$2 > 0 { sub(".*/", "", FILENAME); sub("[.]py[.]result$", "", FILENAME); print FILENAME }' "$folder"/*.result | paste -s -d ' ' -)
    [ -z "$in" ] || failures=1
    echo "$row" | (
        read -r files passed failed skipped date
        echo "| $(echo "$packages" | sed 's/==/ /g; s/,/, /g') | $version | $files of $of | $passed | $failed | $skipped | ${in:--} | $date |"
    )
done <"$work/list"
exit "$failures"
