#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds statements of the documents against the commands that they come from. tests/house/statements.txt lists them, apart by
# empty lines:
#   in DOCUMENT
#   says TEXT        stands in the document, however its lines break; as many such lines as it takes
#   run COMMAND      by sh, in an empty folder; `checkmate` is the program, $root the tree, $build where the program is
#   gives REGEX      extended, of a line of its output; as many as it takes
#   slow             left out without --all: takes more than a second or two
# Figures that are the same on every machine only: no times, and nothing that a search comes to by the clock.
#   check_statements.sh [--all] [FILE]
#   CHECKMATE=build/checkmate   the program
set -eu
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd)
all=0
if [ "${1:-}" = --all ]; then
    all=1
    shift
fi
list=${1:-$root/tests/house/statements.txt}
program=${CHECKMATE:-$root/build/checkmate}
case $program in
/*) ;;
*) program=$(pwd)/$program ;;
esac
[ -x "$program" ] || { echo "check_statements: $program is missing: build it first, or set CHECKMATE" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/bin" "$work/here"
ln -s "$program" "$work/bin/checkmate"
PATH=$work/bin:$PATH
XDG_CACHE_HOME=$work/cache
build=$(dirname "$program")
export PATH XDG_CACHE_HOME root build
n=0
bad=0
left=0

complain() {
    echo "check_statements: $*"
    bad=$((bad + 1))
}

# One statement, in $document, $command, $slow and the files says and gives.
check() {
    [ -n "$document$command" ] || return 0
    if [ -z "$document" ] || [ -z "$command" ] || [ ! -s "$work/says" ] || [ ! -s "$work/gives" ]; then
        complain "a statement lacks one of in, says, run, gives: '$document', '$command'"
        return 0
    fi
    # The words of the document with single spaces, whatever its lines.
    tr -s ' \n' '  ' < "$root/$document" > "$work/words"
    while IFS= read -r text; do
        grep -qF -e "$text" "$work/words" || complain "$document does not say '$text'"
    done < "$work/says"
    if [ "$slow" = 1 ] && [ "$all" = 0 ]; then
        left=$((left + 1))
        return 0
    fi
    n=$((n + 1))
    (cd "$work/here" && sh -c "$command") > "$work/output" 2>&1 < /dev/null || true
    while IFS= read -r regex; do
        grep -qE -e "$regex" "$work/output" ||
            complain "$document says '$(head -n 1 "$work/says")', but '$command' does not give '$regex': $(head -c 600 "$work/output")"
    done < "$work/gives"
    rm -rf "$work/here"
    mkdir "$work/here"
}

begin() {
    document=''
    command=''
    slow=0
    : > "$work/says"
    : > "$work/gives"
}

begin
{ cat "$list"; echo; } > "$work/list"
while IFS= read -r line; do
    case $line in
    '#'*) ;;
    '')
        check
        begin
        ;;
    'in '*) document=${line#in } ;;
    'says '*) printf '%s\n' "${line#says }" >> "$work/says" ;;
    'run '*) command=${line#run } ;;
    'gives '*) printf '%s\n' "${line#gives }" >> "$work/gives" ;;
    slow) slow=1 ;;
    *) complain "cannot read this line: $line" ;;
    esac
done < "$work/list"
[ $((n + left)) -gt 0 ] || complain "$list has no statements"
[ "$bad" -eq 0 ] || exit 1
echo "$n statements hold$([ "$left" -eq 0 ] || echo "; $left slow ones are for --all")"
