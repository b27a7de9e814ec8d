#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the pages for those who extend the library (docs/HOWTO-*.md) name is there: files, functions and types, tests, targets
# of the build.
set -eu
bad=0
complain() {
    echo "$*"
    bad=1
}

work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-howtos.XXXXXX")
trap 'rm -rf "$work"' EXIT
listing=$work/listing

# check ROOT: complains about the pages below ROOT.
check() {
    cd "$1"
    for page in docs/HOWTO-*.md; do
        # A part in angle brackets stands for any name.
        for path in $(grep -oE '(^|[^/A-Za-z])(src|tests|scripts|docs|cmake|include)/[A-Za-z0-9_/.<>*-]*' "$page" |
            sed 's/^[^a-z]//; s/[.>]$//; s/<[^>]*>*/*/g' | sort -u); do
            # shellcheck disable=SC2086 # a pattern
            ls -d $path >"$listing" 2>&1 || complain "$page speaks of $path, which is not there"
        done
        for name in $(grep -oE '\bckm_[a-z0-9_]*[a-z0-9]\b' "$page" | sort -u); do
            grep -rqE "\b$name\b" src include --include='*.h' || complain "$page speaks of $name, which no header has"
        done
        for name in $(grep -oE '`test_[a-z0-9_]*[a-z0-9]`' "$page" | tr -d '`' | sort -u); do
            [ -n "$(find tests -name "$name.c")" ] || grep -q "\b$name\b" cmake/*.cmake ||
                complain "$page speaks of the test $name, which is not there"
        done
        for option in $(grep -oE -- '--[a-z]+(-[a-z]+)*' "$page" | sort -u); do
            case $option in --build | --target | --help) continue ;; esac
            grep -qe "$option" tests/golden/help.txt || complain "$page speaks of $option, which no command has"
        done
    done
}

(check "$CKM_SOURCE_DIR" && exit $bad) || exit 1

mkdir "$work/tree"
for folder in src include tests scripts cmake; do
    ln -s "$CKM_SOURCE_DIR/$folder" "$work/tree/$folder"
done
plant() {
    rm -rf "$work/tree/docs"
    cp -r "$CKM_SOURCE_DIR/docs" "$work/tree/docs"
    echo "$2" >>"$work/tree/docs/HOWTO-backend.md"
    (check "$work/tree" && exit $bad) >"$work/out" && complain "not noticed: $1"
    grep -qe "$(echo "$2" | tr -d '`')" "$work/out" || complain "noticed for another reason: $1"
}
plant "a file that is not there" 'src/solve/strategies/solve_nothing.c'
plant "a function that is not there" 'ckm_i_solver_guess'
plant "a test that is not there" '`test_nothing_at_all`'
plant "an option that is not there" '--back-and'
[ $bad -eq 0 ] && echo "what docs/HOWTO-*.md name is there; 4 planted lines were noticed"
exit $bad
