# SPDX-License-Identifier: Apache-2.0
# Time limits and Ctrl-C end a solve with the best schedule so far.
. "$(dirname "$0")/lib.sh"

# A graph large enough that no strategy is done with it at once.
"$CHECKMATE" graph ResNet50 --batch 64 --granularity layer -o graph.json || fail "cannot build the graph"

# Time limit: kept within reason (the machine may be slow), and a schedule is there.
begin=$(date +%s)
expect 0 solve graph.json --budget 60% --strategy local-search --time-limit 2 --json
took=$(($(date +%s) - begin))
[ "$took" -le 30 ] || fail "a limit of 2 s took $took s"

# A limit too short for anything: the result is a documented status.
run solve graph.json --budget 60% --strategy local-search --time-limit 0.001 --json
case $status in
0 | 4) ;;
*) fail "exit status $status" ;;
esac

# What came by one press or one 'timeout' is one signal, however many there are.
# Ctrl-C, once progress says that there is a schedule.
interrupt() {
    signal=$1
    : > progress.txt
    rm -f schedule.json
    # A shell starts background jobs with SIGINT ignored; the program asks for it anyway.
    "$CHECKMATE" solve graph.json --budget 60% --strategy local-search --time-limit 300 --verbose --json -o schedule.json \
        > out.txt 2> progress.txt &
    solver=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        grep -q 'gap [0-9]' progress.txt && break
        sleep 1
    done
    grep -q 'gap [0-9]' progress.txt || fail "no progress in half a minute: $(cat progress.txt)"
    begin=$(date +%s)
    kill -s "$signal" "$solver"
    [ -z "${2:-}" ] || kill -s "$2" "$solver"
    wait "$solver"
    status=$?
    took=$(($(date +%s) - begin))
    [ "$status" -eq 0 ] || fail "$signal: exit status $status: $(tail -n 3 progress.txt)"
    [ "$took" -le 30 ] || fail "$signal: it took $took s to end"
    "$CHECKMATE" verify graph.json schedule.json > /dev/null || fail "$signal: the schedule kept is not valid"
    out=$(cat out.txt)
    [ "$(member cost)" != null ] || fail "$signal: no cost"
}
interrupt INT INT
interrupt TERM
interrupt TERM INT
# An alarm set by the parent, before another signal or right after it, does not count as the program's own deadline.
interrupt ALRM TERM
interrupt TERM ALRM

# An interrupted sweep keeps the rows it has, and says that it is not complete.
"$CHECKMATE" sweep graph.json --budgets 40 --strategies local-search --time-limit 300 -o sweep.csv 2> err.txt &
sweeper=$!
until_catches $sweeper
sleep 2
kill -s INT "$sweeper"
wait "$sweeper"
status=$?
[ "$status" -eq 1 ] || fail "an interrupted sweep gives status $status"
grep -q 'interrupted after 1 of 40 rows' err.txt || fail "an interrupted sweep says: $(cat err.txt)"
[ "$(wc -l < sweep.csv)" -eq 2 ] || fail "an interrupted sweep leaves $(wc -l < sweep.csv) lines"

# A profile of fewer steps than were asked for says so.
if "$CHECKMATE" help profile > out.txt 2>&1; then
    expect 0 profile "$data/mlp.onnx" --batch 8 --steps 100000 --time-limit 0.2 -o profile.json
    err_has 'of 100000 steps were measured within --time-limit'
fi
finish
