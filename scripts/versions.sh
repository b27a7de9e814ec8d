#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the Python package with each of a list of versions (scripts/versions.txt), each in a virtual environment of its
# own with the wheel, and prints a table of what passes, and below it what was skipped and why. Every file of tests runs by itself,
# and what has a result is not run again: so a list can be tried in parts, night by night.
# Usage: scripts/versions.sh [WORD...]      (default: every line of the list; else those that have one of the words, such as torch==2.15.0)
#        scripts/versions.sh --turn N       one line of PyTorch and one of TensorFlow: the Nth, in a circle, of those that have "turn" and
#                                           whose Python is here
#   CKM_VERSIONS=build/versions     results, one folder a line; to begin anew, delete it
#   CKM_VERSIONS_TESTS="FILE..."    of python/tests, such as test_torch.py; of them those that are for the line's framework (default: all)
#   CKM_VERSIONS_SECONDS=28800      no file is begun after that, and only the table is printed with 0
#   CKM_VERSIONS_WHEEL=FILE         the wheel (default: scripts/wheel.sh makes it)
#   CKM_VERSIONS_KEEP=1             keeps the environments, of some GB each
#   CKM_VERSIONS_LIST=FILE          the list (default: scripts/versions.txt)
# A Python is looked for as pythonX.Y; a line is left out, and the table says so, where there is none or pip cannot install it.
# Exit status 1 when a test fails, 77 when none fails and something that was asked for was not tried.
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

processor=$(sh scripts/processor.sh)
time_left() { [ $(($(date +%s) - began)) -lt "$seconds" ]; }
# Of this machine's settings none decides what is tried.
unset PYTHONPATH PYTHONHOME CHECKMATE_LIBRARY CHECKMATE_PROGRAM

# find_python X.Y: sets $python to one that can make an environment.
find_python() {
    for python in $(which -a "python$1" 2>/dev/null) "${HOME:-/root}/.pyenv/versions/$1".*/bin/python; do
        ! "$python" -c "import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null || return 0
    done
    return 1
}

# no_python X.Y: says so, with the package that has it where this system has one.
no_python() {
    if [ -n "$(apt-cache search --names-only "^python$1-venv\$" 2>/dev/null)" ]; then
        echo "no Python $1 with venv here: apt-get install python$1-venv"
    else
        echo "no Python $1 here, and this system has no package of it"
    fi
}

# tests_of PACKAGES: the files of tests for them.
tests_of() {
    case $1 in
    torch*) (cd python/tests && ls test_*.py | grep -v '^test_tf2') ;;
    *) (cd python/tests && ls test_tf2*.py) ;;
    esac
}
# tests_asked_for PACKAGES: those of them that are to be run.
tests_asked_for() {
    [ -n "${CKM_VERSIONS_TESTS:-}" ] || { tests_of "$1"; return; }
    printf '%s\n' $CKM_VERSIONS_TESTS | while read -r file; do
        ! tests_of "$1" | grep -qxF "$file" || echo "$file"
    done
}

# folder_of PACKAGES PYTHON: the line's; env takes what has an "=" in its name for a variable, a linker's option ends at a comma.
folder_of() { echo "$results/$(echo "$1" | sed 's/==/-/g; s/,/+/g')-python$2"; }

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

# run_file FOLDER FILE: its result, "PASSED FAILED SKIPPED DATE COMMIT PROCESSOR", goes to FOLDER/FILE.result, what pytest says to
# FOLDER/FILE.log.
run_file() {
    status=0
    waited setsid env -C python TF_CPP_MIN_LOG_LEVEL=3 "$1/venv/bin/python" -m pytest -p no:cacheprovider -rfEs "tests/$2" >"$1/$2.log" 2>&1 || status=$?
    summary=$(tail -n 1 "$1/$2.log")
    count() { echo "$summary" | sed -n "s/.*[^0-9]*\b\([0-9][0-9]*\) $1.*/\1/p" | grep . || echo 0; }
    failed=$(($(count failed) + $(count error)))
    # A run that crashes is a failure, whatever it counted; status 5 is a file that skips itself as a whole.
    [ "$status" -eq 0 ] || [ "$status" -eq 5 ] || [ "$failed" -gt 0 ] || failed=1
    echo "$(count passed) $failed $(count skipped) $(date +%Y-%m-%d) $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo -) $processor" >"$1/$2.result"
}

# in_turn FRAMEWORK N: the line of the list whose turn it is; where none has its Python here, all of them, which are left out then.
in_turn() {
    grep "^$1.* turn$" "$work/all" >"$work/turns" || return 0
    while read -r packages version turn; do
        ! find_python "$version" || echo "$packages $version $turn"
    done <"$work/turns" >"$work/here"
    [ -s "$work/here" ] || { cat "$work/turns"; return; }
    awk -v turn="$2" '{ line[NR - 1] = $0 } END { print line[turn % NR] }' "$work/here"
}

# lines of the list that are asked for: PACKAGES PYTHON [turn].
list=${CKM_VERSIONS_LIST:-scripts/versions.txt}
grep -v -e '^#' -e '^$' "$list" >"$work/all"
if [ "${1:-}" = --turn ]; then
    [ $# -eq 2 ] && [ -n "$2" ] && [ -z "$(echo "$2" | tr -d 0-9)" ] || { echo "usage: versions.sh --turn N" >&2; exit 2; }
    for framework in torch tensorflow; do
        in_turn "$framework" "$2"
    done >"$work/list"
elif [ $# -gt 0 ]; then
    for word in "$@"; do
        grep -F -e "$word" "$work/all" >>"$work/list" || { echo "versions.sh: no line of $list has $word" >&2; exit 2; }
    done
else
    cp "$work/all" "$work/list"
fi

wheel=${CKM_VERSIONS_WHEEL:-}
if [ -z "$wheel" ] && [ "$seconds" -gt 0 ]; then
    sh scripts/wheel.sh "$work/dist" >&2
    wheel=$(echo "$work"/dist/*.whl)
fi
while read -r packages version turn; do
    folder=$(folder_of "$packages" "$version")
    mkdir -p "$folder"
    time_left || break
    find_python "$version" || { no_python "$version" >"$folder/left_out"; continue; }
    for file in $(tests_asked_for "$packages"); do
        [ ! -e "$folder/$file.result" ] || continue
        time_left || break
        make_environment "$folder" || break
        run_file "$folder" "$file"
        echo "$packages, Python $version: $file: $(cat "$folder/$file.result")" >&2
    done
    [ -n "${CKM_VERSIONS_KEEP:-}" ] || rm -rf "$folder/venv"
done <"$work/list"

# spaced PACKAGES: as they are read.
spaced() { echo "$1" | sed 's/==/ /g; s/,/, /g'; }
echo "| packages | Python | files | passed | failed | skipped | failures in | tried | commit | processor |"
echo "|---|---|---|---|---|---|---|---|---|---|"
failures=0
untried=0
while read -r packages version turn; do
    folder=$(folder_of "$packages" "$version")
    of=$(tests_of "$packages" | wc -l)
    for file in $(tests_asked_for "$packages"); do
        [ -e "$folder/$file.result" ] || untried=1
    done
    # Commits and processors in the order of their first file; more than one where a list was tried in parts.
    row=$(cat "$folder"/*.result 2>/dev/null | sort -s -k 4,4 | awk '
        {
            files++; passed += $1; failed += $2; skipped += $3; date = $4
            if (!index(commits, $5)) commits = commits (files > 1 ? ", " : "") $5
            $1 = $2 = $3 = $4 = $5 = ""
            sub(/^ +/, "")
            if (!index(processors, $0)) processors = processors (files > 1 ? "; " : "") $0
        }
        END { if (files) printf "%d %d %d %d %s|%s|%s", files, passed, failed, skipped, date, commits, processors }')
    if [ -z "$row" ]; then
        echo "| $(spaced "$packages") | $version | 0 of $of | | | | not tried: $(cat "$folder/left_out" 2>/dev/null || echo "no time") | | | |"
        continue
    fi
    in=$(awk '$2 > 0 { sub(".*/", "", FILENAME); sub("[.]py[.]result$", "", FILENAME); print FILENAME }' "$folder"/*.result | paste -s -d ' ' -)
    [ -z "$in" ] || failures=1
    echo "$row" | (
        IFS='|' read -r counts commits processors
        echo "$counts" | (
            read -r files passed failed skipped date
            echo "| $(spaced "$packages") | $version | $files of $of | $passed | $failed | $skipped | ${in:--} | $date | $commits | $processors |"
        )
    )
done <"$work/list"

# What was skipped, with pytest's reason, one line an environment: "2 x reason".
while read -r packages version turn; do
    folder=$(folder_of "$packages" "$version")
    for result in "$folder"/*.result; do
        [ ! -e "$result" ] || sed -n 's/^SKIPPED \[\([0-9]*\)\] \([^:]*\):\([0-9]*: \)\{0,1\}/\1 /p' "${result%.result}.log"
    done | awk '{ count = $1; sub(/^[0-9]+ /, ""); sub(/^ */, ""); if (!($0 in times)) order[++reasons] = $0; times[$0] += count }
        END { for (i = 1; i <= reasons; i++) printf "%s%d x %s", (i > 1 ? "; " : ""), times[order[i]], order[i] }' >"$work/skipped"
    [ ! -s "$work/skipped" ] || printf '\nSkipped with %s, Python %s: %s\n' "$(spaced "$packages")" "$version" "$(cat "$work/skipped")"
done <"$work/list"
[ "$failures" -eq 0 ] || exit 1
[ "$untried" -eq 0 ] || exit 77
