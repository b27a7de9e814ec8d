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
grep -q '^memory floor  *4 B  *40.0 %  *needed by all schedules; none of them fits less$' out.txt ||
    fail "the table does not say that it is the smallest: $out"
[ "$(grep -c 'floor\|proven: ' out.txt)" -eq 1 ] || fail "more than one floor: $out"

# What the next budgets cost, and where the last bytes are dear: 5 bytes are the next after 4.
grep -q '^next budgets  *5 B  *50.0 %  *overhead' out.txt || fail "the table has no next budget: $out"
grep -q 'the last 20.0 % of the memory cost .* more computation: --budget 50.0% has an overhead of' out.txt ||
    fail "the table does not say that the last byte is dear: $out"
grep -q '"next_budget_bytes": \[5\], "next_budget_costs": \[[0-9]*\]' least.json || fail "no next budget: $(cat least.json)"
next=$(sed -n 's/.*"next_budget_costs": \[\([0-9]*\)\].*/\1/p' least.json)
[ "$next" -lt 38 ] || fail "a byte more saves nothing: $(cat least.json)"

# A share of activations leaves out what no schedule can do without: here 100 fixed bytes and a result of 1, of 111.
sed 's/"fixed_bytes": 0/"fixed_bytes": 100/; s/"ops":/"results": [16], "ops":/' graph.json > heavy.json
for spelling in "60% of activations" "60%act" "60% a" "60%Activations"; do
    expect 0 solve heavy.json --budget "$spelling" --json -o heavy-schedule.json
    [ "$(value baseline_peak_bytes out.txt) $(value budget_bytes out.txt)" = "110 106" ] || fail "$spelling: $out"
done
expect 0 verify heavy.json heavy-schedule.json --budget 60%act
expect 1 verify heavy.json heavy-schedule.json --budget 1%act
expect 2 solve heavy.json --budget "60% of it"
expect 2 solve heavy.json --budget "60% of"
expect 0 solve graph.json --budget 5 --json
[ "$(value cost out.txt)" = "$next" ] || fail "a budget of 5 bytes costs $(value cost out.txt), was said to cost $next"

# On a network: between the floor and what is found, and no schedule fits a bound less.
"$CHECKMATE" graph VGG16 --batch 16 --granularity layer -o vgg16.json || fail "cannot build the graph"
expect 0 solve vgg16.json --budget min --time-limit 4 --json
cp out.txt least.json
awk -v f="$(value floor_bytes least.json)" -v b="$(value least_budget_bytes least.json)" \
    -v l="$(value least_budget_bound_bytes least.json)" -v p="$(value peak_bytes least.json)" \
    'BEGIN { exit !(f <= l && l <= b && p <= b) }' || fail "bounds out of order: $(cat least.json)"
list() {
    sed -n 's/.*"'"$1"'": \[\([^]]*\)\].*/\1/p' least.json
}
echo "$(list next_budget_bytes), $(list next_budget_costs)" | awk -F', ' -v b="$(value least_budget_bytes least.json)" \
    -v c="$(value cost least.json)" '{
        n = NF / 2
        for (i = 1; i <= n; i++) { if ($i + 0 <= b || $(n + i) + 0 > c) bad = 1; b = $i + 0; c = $(n + i) + 0 }
        exit bad || n < 1 }' || fail "budgets do not rise, or costs do: $(cat least.json)"
run solve vgg16.json --budget $(($(value least_budget_bound_bytes least.json) - 1)) --time-limit 2
case $status in
3 | 4) ;;
*) fail "less than the bound fits: status $status" ;;
esac

# The time is that for both, the budget and the schedule. The budget takes its share of the limit, since it stays open on this
# graph; the schedule may be there at once.
"$CHECKMATE" graph ResNet50 --batch 8 -o resnet50.json || fail "cannot build the graph"
expect 0 solve resnet50.json --budget min --time-limit 2 --gap 0 --json
awk -v s="$(value seconds out.txt)" 'BEGIN { exit !(s >= 0.5) }' || fail "of 2 seconds, $(value seconds out.txt) are told"

# Two branches, each with a wide middle: one operator at a time needs 8 + 3 bytes, the reverse pebble game proves 14,
# since what one branch keeps waits for the other. Whatever names the floor names that.
cat > branches.json << 'EOF'
{"format": "checkmate-graph", "version": 1, "name": "branches", "cost_unit": "flops", "fixed_bytes": 0,
 "tensors": [{"name": "a", "bytes": 8}, {"name": "b", "bytes": 3}, {"name": "c", "bytes": 8}, {"name": "d", "bytes": 3},
  {"name": "e", "bytes": 1}],
 "ops": [
  {"name": "a", "kind": "forward", "cost": 1, "inputs": [], "outputs": [0]},
  {"name": "c", "kind": "forward", "cost": 1, "inputs": [], "outputs": [2]},
  {"name": "b", "kind": "forward", "cost": 1, "inputs": [0], "outputs": [1]},
  {"name": "d", "kind": "forward", "cost": 1, "inputs": [2], "outputs": [3]},
  {"name": "e", "kind": "forward", "cost": 1, "inputs": [1, 3], "outputs": [4]}],
 "results": [4]}
EOF
expect 0 solve branches.json --budget min
grep -q '^memory floor  *14 B .*needed by all schedules; none of them fits less$' out.txt ||
    fail "the floor of the smallest budget is not the proven one: $out"
[ "$(grep -c 'floor\|proven: ' out.txt)" -eq 1 ] || fail "more than one floor: $out"
expect 0 solve branches.json --budget min --json
[ "$(value floor_bytes out.txt)" = 14 ] || fail "floor_bytes is not what is proven for all schedules: $out"
for strategy in auto checkpoint-all local-search; do
    expect 3 solve branches.json --budget 13 --strategy $strategy --time-limit 1
    err_has "every schedule needs at least 14 B (14 bytes)"
    grep -q '^memory floor  *14 B' out.txt || fail "$strategy shows another floor: $(cat out.txt)"
done
expect 0 solve branches.json --budget 100% --strategy checkpoint-all --json
[ "$(value floor_bytes out.txt)" = 14 ] || fail "a strategy that proves nothing shows another floor: $(cat out.txt)"
expect 0 graph branches.json
grep -q '^memory floor  *14 B, which every schedule needs$' out.txt || fail "graph shows another floor: $(cat out.txt)"
expect 0 sweep branches.json --budgets 3 --strategies auto --verbose -o sweep.csv
err_has "3 budgets from 14 B, which every schedule is proven to need, to"
[ "$(sed -n 2p sweep.csv | cut -d, -f3)" = 14 ] || fail "the sweep does not begin at the floor: $(cat sweep.csv)"
if grep -q infeasible sweep.csv; then
    fail "a budget of the sweep is infeasible: $(cat sweep.csv)"
fi

# The same with both 8s first, each computed once: in this order both are there when the first 3 is made, in another not.
cat > wide.json << 'EOF'
{"format": "checkmate-graph", "version": 1, "name": "wide", "cost_unit": "flops", "fixed_bytes": 0,
 "tensors": [{"bytes": 8}, {"bytes": 8}, {"bytes": 3}, {"bytes": 3}, {"bytes": 1}],
 "ops": [
  {"cost": 1, "inputs": [], "outputs": [0], "recomputable": false},
  {"cost": 1, "inputs": [], "outputs": [1], "recomputable": false},
  {"cost": 1, "inputs": [0], "outputs": [2], "recomputable": false},
  {"cost": 1, "inputs": [1], "outputs": [3], "recomputable": false},
  {"cost": 1, "inputs": [2, 3], "outputs": [4], "recomputable": false}],
 "results": [4]}
EOF
expect 0 solve wide.json --budget min --verbose
grep -q "^memory floor  *19 B .*needed by all schedules in the graph's order; none of them fits less$" out.txt ||
    fail "the table does not have the floor of the class: $(cat out.txt)"
grep -q '^memory floor  *14 B .*needed by all schedules$' out.txt || fail "the table does not have the floor of all: $(cat out.txt)"
err_has "smallest budget 19 B, proven: at least 14 B, and 19 B for all schedules in the graph's order"
expect 0 solve wide.json --budget min --json
for pair in floor_bytes=14 least_budget_bound_bytes=19 least_budget_bound_covers=order least_budget_bytes=19; do
    [ "$(value "${pair%%=*}" out.txt)" = "${pair#*=}" ] || fail "expected $pair: $(cat out.txt)"
done

# Where no schedule that advances by stages fits but another one does, a proof is still one for the schedules it covers.
"$CHECKMATE" graph linear1 --batch 32 -o linear.json || fail "cannot build the graph"
expect 3 solve linear.json --budget 423436236 --strategy ilp --json
[ "$(value bound_covers out.txt)" = frontier ] ||
    fail "the proof of the integer program is not one of its own class: $out"
expect 0 solve linear.json --budget 423436236 --time-limit 20 --json
[ "$(value bound_covers out.txt)" = order ] && [ "$(value status out.txt)" = optimal ] ||
    fail "the schedule of the pebble game is not proven: $out"

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
