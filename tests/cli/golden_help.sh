# SPDX-License-Identifier: Apache-2.0
# Every help page, word for word, and the version.
. "$(dirname "$0")/lib.sh"

expect 0 --version
expect 0 --help
for command in models graph solve verify report explain sweep max-batch profile train run export strategies devices help; do
    expect 0 help "$command"
    [ -z "$err" ] || fail "help $command writes to standard error"
    cp out.txt page.txt
    # --help anywhere, with anything else on the line, shows the same page.
    "$CHECKMATE" "$command" --nonsense --help > out.txt || fail "$command --help fails"
    cmp -s page.txt out.txt || fail "help $command and $command --help differ"
    "$CHECKMATE" "$command" -h > out.txt || fail "$command -h fails"
    cmp -s page.txt out.txt || fail "help $command and $command -h differ"
    # A page that teaches has all of these.
    for heading in Usage Options Search Examples "Exit status"; do
        case $heading in
        Options | Search) ;;
        *) grep -qx "$heading" page.txt || fail "help $command has no '$heading'" ;;
        esac
    done
    COLUMNS=60 "$CHECKMATE" help "$command" > narrow.txt
    sed -n '/^Examples$/,$!p' narrow.txt | awk 'length($0) > 60 { exit 1 }' || fail "help $command does not fit 60 columns"
    awk 'length($0) > 80 { exit 1 }' page.txt || fail "help $command has a line over 80 columns"
done
# Nor are other lists wider than a terminal.
for list in '--help' models 'models --all' strategies devices; do
    # shellcheck disable=SC2086
    "$CHECKMATE" $list > list.txt || fail "$list fails"
    awk 'length($0) > 80 { exit 1 }' list.txt || fail "$list has a line over 80 columns"
done
# And what a schedule does, with any names.
"$CHECKMATE" graph ResNet50 --batch 16 -o long.json && "$CHECKMATE" solve long.json --budget 60% --strategy chen-greedy -v -o plan.json \
    > list.txt 2> progress.txt && "$CHECKMATE" explain long.json plan.json >> list.txt || fail "explain fails"
grep -v '^info: ' progress.txt >> list.txt
awk 'length($0) > 80 { exit 1 }' list.txt || fail "explain or solve has a line over 80 columns: $(awk 'length($0) > 80' list.txt)"
# No colours in a file, whatever the terminal.
if grep -q "$(printf '\033')" "$transcript"; then
    fail "escape sequences in a pipe"
fi
golden help
finish
