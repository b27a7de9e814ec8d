# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests in this folder; not a test itself.
#
# A test gets the program in $CHECKMATE, runs in an empty folder of its own, and ends with `finish`.
# `run ARGUMENTS...` runs the program and appends a transcript: the command line, standard output as it is,
# standard error with "! " in front, the exit status. `golden NAME` compares the transcript with
# tests/golden/NAME.txt, timings masked; with CKM_UPDATE_GOLDEN=1 it writes that file instead.

set -u
: "${CHECKMATE:?the path of the program}"
here=$(cd "$(dirname "$0")" && pwd)
golden_dir=$here/../golden
data=$here/data
shared=${CKM_SHARED_DATA_DIR:-$here/../../../shared/data}
case $CHECKMATE in
/*) ;;
*) CHECKMATE=$(pwd)/$CHECKMATE ;;
esac
work=$(mktemp -d) || exit 1
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit 1
LC_ALL=C
export LC_ALL
unset NO_COLOR COLUMNS
failed=0
transcript=$work/.transcript
: > "$transcript"

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    failed=1
}

# until_catches PID: waits until the process catches SIGTERM, bit 14 of its mask, which it does last: a signal that comes before ends it,
# or is ignored where a shell has it so.
until_catches() {
    until grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$1/status" 2> /dev/null; do
        [ -e "/proc/$1/status" ] && ! grep -q '^State:.*Z' "/proc/$1/status" 2> /dev/null || return 0
        sleep 0.1
    done
}

skip() {
    printf 'SKIP: %s\n' "$*" >&2
    exit 77
}

# run ARGUMENTS...: sets $status, $out and $err (the contents of the streams' files out.txt and err.txt).
run() {
    "$CHECKMATE" "$@" > out.txt 2> err.txt < /dev/null
    status=$?
    out=$(cat out.txt)
    err=$(cat err.txt)
    {
        printf '$ checkmate'
        for argument in "$@"; do
            case $argument in
            *[!A-Za-z0-9_./,:=%+-]*) printf " '%s'" "$argument" ;;
            *) printf ' %s' "$argument" ;;
            esac
        done
        printf '\n'
        cat out.txt
        sed 's/^/! /' err.txt
        printf '[exit %d]\n\n' "$status"
    } >> "$transcript"
}

# expect STATUS ARGUMENTS...: run, and the exit status must be this one.
expect() {
    wanted=$1
    shift
    run "$@"
    if [ "$status" -ne "$wanted" ]; then
        fail "checkmate $*: exit status $status, expected $wanted; standard error: $err"
    fi
}

# err_has TEXT / out_has TEXT: a fixed string that the last run must have printed.
err_has() {
    case $err in
    *"$1"*) ;;
    *) fail "standard error lacks '$1': $err" ;;
    esac
}

out_has() {
    case $out in
    *"$1"*) ;;
    *) fail "standard output lacks '$1': $out" ;;
    esac
}

# The last run's standard error must be exactly one line.
one_error_line() {
    if [ "$(wc -l < err.txt)" -ne 1 ]; then
        fail "expected one line on standard error, got: $err"
    fi
}

# member KEY: the value of a member in the JSON object on the last run's standard output.
member() {
    printf '%s\n' "$out" | sed -n 's/.*"'"$1"'": \("[^"]*"\|[^,}]*\).*/\1/p' | tr -d '"'
}

# json_keys KEY...: standard output is one line with one flat JSON object of exactly these members, in
# order; values are numbers, strings, true, false or null. (Read character by character, in awk.)
json_keys() {
    found=$(awk '
        function bad(why) { print "not one flat JSON object: " why; failed = 1; exit }
        NR > 1 { bad("more than one line") }
        {
            text = $0
            if (substr(text, 1, 1) != "{") bad("no {")
            text = substr(text, 2)
            while (1) {
                if (!match(text, /^"[a-z_]*": /)) bad("no key at " text)
                keys = keys " " substr(text, 2, RLENGTH - 4)
                text = substr(text, RLENGTH + 1)
                if (!match(text, /^("([^"\\]|\\.)*"|-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null)/))
                    bad("no value at " text)
                text = substr(text, RLENGTH + 1)
                if (text == "}") break
                if (substr(text, 1, 2) != ", ") bad("no comma at " text)
                text = substr(text, 3)
            }
        }
        END { if (!failed) print NR == 0 ? "no output" : substr(keys, 2) }' out.txt)
    if [ "$found" != "$*" ]; then
        fail "JSON members: $found; expected: $*"
    fi
}

golden() {
    expected=$golden_dir/$1.txt
    sed -e 's/"seconds": [0-9.e+-]*/"seconds": #/' -e 's/^\(seconds  *\)[0-9.]*$/\1#/' "$transcript" > got.txt
    if [ "${CKM_UPDATE_GOLDEN:-0}" = 1 ]; then
        cp got.txt "$expected"
    elif ! diff -u "$expected" got.txt >&2; then
        fail "output differs from tests/golden/$1.txt (CKM_UPDATE_GOLDEN=1 accepts it)"
    fi
}

finish() {
    exit "$failed"
}
