#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every command has a manual page that renders without a warning and describes the options that help knows, and no others.
set -eu
pages="$CKM_BINARY_DIR/pages/man"
bad=0
complain() {
    echo "$*"
    bad=1
}
if command -v mandoc >/dev/null; then
    render() { mandoc -T lint -W warning "$1" && mandoc -T ascii -O width=500 "$1" | sed "s/.$(printf '\b')//g"; }
elif command -v groff >/dev/null; then
    render() { groff -man -ww -P-cbou -Tutf8 "$1" 2>&1; }
else
    echo "skipped: neither mandoc nor groff is there"
    exit 77
fi
# Options in a text, each once.
options_in() { grep -o -e '--[a-z][a-z0-9-]*' | LC_ALL=C sort -u; }

commands=$("$CHECKMATE" --help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ -n "$commands" ] || { echo "the program's help lists no commands"; exit 1; }
for command in $commands; do
    page="$pages/checkmate-$command.1"
    [ -s "$page" ] || { complain "there is no $page"; continue; }
    text=$(render "$page") || complain "$page has warnings: $text"
    written=$(sed 's/\\-/-/g' "$page" | options_in)
    known=$("$CHECKMATE" help "$command" | options_in)
    [ "$written" = "$known" ] || complain "$page and help $command name different options: $written; $known"
    for option in $known; do
        printf '%s\n' "$text" | tr '\n' ' ' | grep -q -e "$option\([^a-z0-9-]\|\$\)" || complain "$page shows no $option"
    done
    sed 's/\\-/-/g' "$pages/checkmate.1" | grep -q "^.BR checkmate-$command (1)," || complain "checkmate.1 does not refer to $command"
done
[ "$(printf '%s\n' $commands | wc -l)" -eq "$(find "$pages" -name 'checkmate-*.1' | wc -l)" ] ||
    complain "there are pages of commands that the program does not have"

text=$(render "$pages/checkmate.1") || complain "checkmate.1 has warnings: $text"
for word in $(grep -rhoE 'getenv\("[A-Z_]+"\)' "$CKM_SOURCE_DIR/src/cli" | grep -oE '[A-Z_]{3,}' | sort -u); do
    case $word in
    HOME | TERM) ;;
    *) printf '%s\n' "$text" | grep -qw "$word" || complain "checkmate.1 does not describe the variable $word" ;;
    esac
done
[ $bad -eq 0 ] && echo "manual and help agree"
exit $bad
