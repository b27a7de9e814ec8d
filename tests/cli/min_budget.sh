# SPDX-License-Identifier: Apache-2.0
# solve --budget min: the smallest budget with a proven bound; and sweeps that carry on what they found.
. "$(dirname "$0")/lib.sh"

value() {
    sed -n 's/.*"'"$1"'": \("[^"]*"\|[^,}]*\).*/\1/p' "$2" | tr -d '"'
}

# The chain of 8 layers fits its floor, 4 bytes: found, and nothing less is possible.
cp "$data/unit_chain8.json" graph.json
expect 0 solve graph.json --budget min --json -o schedule.json
cp out.txt least.json
for pair in least_budget_bytes=4 least_budget_bound_bytes=4 least_budget_status=optimal budget_bytes=4 peak_bytes=4 \
    status=optimal cost=38; do
    [ "$(value "${pair%%=*}" least.json)" = "${pair#*=}" ] || fail "expected $pair: $(cat least.json)"
done
expect 0 verify graph.json schedule.json --budget 4
expect 0 solve graph.json --budget min
grep -q '^smallest budget  *4 B' out.txt || fail "the table does not name the smallest budget: $out"
grep -q '^proven: at least  *4 B .*none fits less' out.txt || fail "the table does not say that it is the smallest: $out"

# On a network: between the floor and what is found, and no schedule fits a bound less.
"$CHECKMATE" graph VGG16 --batch 16 --granularity layer -o vgg16.json || fail "cannot build the graph"
expect 0 solve vgg16.json --budget min --time-limit 4 --json
cp out.txt least.json
awk -v f="$(value floor_bytes least.json)" -v b="$(value least_budget_bytes least.json)" \
    -v l="$(value least_budget_bound_bytes least.json)" -v p="$(value peak_bytes least.json)" \
    'BEGIN { exit !(f <= l && l <= b && p <= b) }' || fail "bounds out of order: $(cat least.json)"
run solve vgg16.json --budget $(($(value least_budget_bound_bytes least.json) - 1)) --time-limit 2
case $status in
3 | 4) ;;
*) fail "less than the bound fits: status $status" ;;
esac

# Costs and bounds of a sweep never rise with the budget, even when time is short.
for model in graph.json vgg16.json; do
    expect 0 sweep $model --budgets 7 --strategies auto,local-search,chen-greedy --time-limit 0.2 -o sweep.csv
    awk -F, 'NR > 1 {
            if ($4 in cost && $6 == "") { print "fits no more: " $0; bad = 1 }
            if ($4 in cost && $6 + 0 > cost[$4]) { print "dearer: " $0; bad = 1 }
            if ($4 in bound && $10 != "" && $10 + 0 > bound[$4]) { print "larger bound: " $0; bad = 1 }
            if ($6 != "") cost[$4] = $6 + 0
            if ($10 != "") bound[$4] = $10 + 0 }
        END { exit bad }' sweep.csv >&2 || fail "the sweep of $model is not monotone"
done
finish
