# SPDX-License-Identifier: Apache-2.0
# solve, verify and graph on the unit chain of 8 layers: whole transcripts of strategies without chance.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
solve_keys="status cost baseline_cost overhead peak_bytes budget_bytes baseline_peak_bytes floor_bytes least_peak_bytes bound_cost \
bound_covers gap seconds strategy found_by proven_by"
verify_keys="ok cost peak_bytes why"

expect 0 graph graph.json
expect 0 solve graph.json --budget 17 --strategy checkpoint-all
expect 0 solve graph.json --budget 8 --strategy chen-sqrt -o sqrt.json
expect 0 solve graph.json --budget=8 --strategy=chen-sqrt --json
json_keys $solve_keys
expect 0 verify graph.json sqrt.json
expect 0 verify graph.json sqrt.json --json
json_keys $verify_keys
[ "$(member ok)" = true ] || fail "a good schedule is not ok"
[ "$(member why)" = null ] || fail "an ok verdict has a reason"

# Budgets in every spelling are the same budget: 80 % of the peak of 10 is 8 bytes.
for budget in 8 8B 0.008kB 80% 80.0% 89.99%; do
    "$CHECKMATE" solve graph.json --budget $budget --strategy chen-sqrt --json > out.txt || fail "budget $budget"
    out=$(cat out.txt)
    [ "$(member budget_bytes)" = 8 ] || fail "--budget $budget is $(member budget_bytes) bytes, expected 8"
done
for pair in 2kB:2000 2KB:2000 2KiB:2048 1.5MB:1500000 1MiB:1048576 3GB:3000000000 2GiB:2147483648 1TB:1000000000000; do
    "$CHECKMATE" solve graph.json --budget "${pair%:*}" --strategy checkpoint-all --json > out.txt || fail "budget $pair"
    out=$(cat out.txt)
    [ "$(member budget_bytes)" = "${pair#*:}" ] || fail "--budget ${pair%:*} is $(member budget_bytes) bytes"
done

# Not ok: over budget, illegal, and telling untruths.
expect 1 verify graph.json sqrt.json --budget 7
expect 1 verify graph.json sqrt.json --budget 7 --json
json_keys $verify_keys
[ "$(member ok)" = false ] || fail "over budget, and ok"
sed '/^  \["compute", 0\],$/d' sqrt.json > illegal.json
cmp -s sqrt.json illegal.json && fail "the schedule file does not look as this test expects"
expect 1 verify graph.json illegal.json --json
json_keys $verify_keys
[ "$(member cost)" = null ] || fail "an illegal schedule has a cost"
sed 's/"cost": [0-9]*/"cost": 17/' sqrt.json > untrue.json
expect 1 verify graph.json untrue.json

# Standard input and output.
expect 0 solve graph.json --budget 17 --strategy checkpoint-all -o -
cp out.txt piped.json
"$CHECKMATE" verify - piped.json < graph.json > /dev/null || fail "verify does not read the graph from a pipe"
"$CHECKMATE" graph graph.json -o - | "$CHECKMATE" solve - --budget 60% --strategy checkpoint-last --json > out.txt ||
    fail "graph | solve fails"
# Options may come before arguments, and "--" ends them.
expect 0 solve --budget 17 --strategy checkpoint-all --json -- graph.json
golden solve
finish
