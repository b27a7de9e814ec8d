# SPDX-License-Identifier: Apache-2.0
# Output that cannot be delivered is a failure: full disk, closed pipe, closed stream, files without permission.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json

if [ -w /dev/full ]; then
    for arguments in "--version" "--help" "help solve" "models" "strategies" "graph graph.json" "graph graph.json -o -" \
        "solve graph.json --budget 17 --strategy checkpoint-all" \
        "solve graph.json --budget 17 --strategy checkpoint-all --json" \
        "solve graph.json --budget 17 --strategy checkpoint-all -o -" \
        "sweep graph.json --budgets 2 --strategies checkpoint-all"; do
        # shellcheck disable=SC2086 # the words are arguments
        "$CHECKMATE" $arguments > /dev/full 2> err.txt
        [ $? -eq 1 ] || fail "checkmate $arguments > /dev/full does not fail with 1"
        [ "$(wc -l < err.txt)" -eq 1 ] || fail "checkmate $arguments > /dev/full: $(cat err.txt)"
        # shellcheck disable=SC2086
        "$CHECKMATE" $arguments >&- 2> err.txt
        [ $? -eq 1 ] || fail "checkmate $arguments with closed output does not fail with 1"
    done
    expect 1 graph graph.json -o /dev/full
    expect 1 solve graph.json --budget 17 --strategy checkpoint-all -o /dev/full
    expect 1 sweep graph.json --budgets 2 --strategies checkpoint-all -o /dev/full
    "$CHECKMATE" solve graph.json --budget 17 --strategy checkpoint-all -o schedule.json > /dev/null || fail "solve"
    "$CHECKMATE" verify graph.json schedule.json > /dev/full 2> err.txt
    [ $? -eq 1 ] || fail "verify > /dev/full does not fail with 1"
else
    echo "note: /dev/full is not there; full-disk checks left out" >&2
fi

# A reader that goes away at once: status 1, not a signal, not success.
mkfifo pipe
(exec 3< pipe) &
reader=$!
{
    wait "$reader"
    # Enough output to be sure that it is refused even where pipes are large.
    "$CHECKMATE" help solve 2> err.txt
    echo $? > status.txt
} > pipe
[ "$(cat status.txt)" = 1 ] || fail "a closed pipe gives status $(cat status.txt)"
grep -q "standard output" err.txt || fail "a closed pipe is not explained: $(cat err.txt)"

# Permissions. They do not bind root, who becomes somebody else for this.
somebody=''
if [ "$(id -u)" -eq 0 ]; then
    somebody='setpriv --reuid=65534 --regid=65534 --clear-groups'
    chmod 755 "$work"
fi
if $somebody "$CHECKMATE" --version > /dev/null 2>&1; then
    cp graph.json secret.json
    chmod 000 secret.json
    $somebody "$CHECKMATE" graph secret.json > out.txt 2> err.txt
    [ $? -eq 1 ] || fail "an unreadable file does not fail with 1"
    grep -q 'secret.json: .*ermission' err.txt || fail "an unreadable file: $(cat err.txt)"
    mkdir locked
    chmod 555 locked
    $somebody "$CHECKMATE" graph graph.json -o locked/graph.json > out.txt 2> err.txt
    [ $? -eq 1 ] || fail "an unwritable folder does not fail with 1"
    grep -q 'locked/graph.json: .*ermission' err.txt || fail "an unwritable folder: $(cat err.txt)"
    [ -z "$(ls locked)" ] || fail "left behind: $(ls locked)"
else
    echo "note: cannot run the program as another user than root; permission checks left out" >&2
fi

# A failed write keeps the old file and leaves no temporary one.
mkdir kept
echo old > kept/graph.json
expect 1 graph truncated.json -o kept/graph.json
[ "$(cat kept/graph.json)" = old ] || fail "a failure changed the output file"
[ "$(ls kept)" = graph.json ] || fail "left behind: $(ls kept)"
finish
