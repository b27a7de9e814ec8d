# SPDX-License-Identifier: Apache-2.0
# Exit statuses 3 and 4, and what is said along with them.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json

# Below the floor: proven, with the floor and a budget that is known to fit; nothing is written.
expect 3 solve graph.json --budget 3 -o schedule.json
err_has "at least 4 B (4 bytes)"
err_has "a schedule at 4 B (4 bytes) was found"
out_has infeasible
one_error_line
[ ! -e schedule.json ] || fail "an infeasible solve wrote a schedule"
expect 3 solve graph.json --budget 3 --json
[ "$(member status)" = infeasible ] || fail "status is $(member status)"
[ "$(member cost)" = null ] || fail "cost without a schedule"
[ "$(member floor_bytes)" = 4 ] || fail "floor is $(member floor_bytes)"
expect 3 solve graph.json --budget 0
for budget in 0 0% 0.4B; do
    expect 2 train linear8 --data synthetic --batch 1 --budget $budget
    err_has 'more than nothing'
done
expect 3 max-batch linear8 --memory 1MB
expect 3 max-batch linear8 --memory 1MB --json
json_keys max_batch upper_bound bound_covers overhead peak_bytes seconds status memory_bytes samples_per_second
[ "$(member max_batch)" = null ] || fail "a batch where none fits"
[ "$(member status)" = infeasible ] || fail "status is $(member status)"

# No frontier-advancing schedule fits 3010 bytes, but one of another class does: infeasibility must not be claimed.
cat > stages.json << 'END'
{"format": "checkmate-graph", "version": 1,
 "tensors": [{"bytes": 10}, {"bytes": 1000}, {"bytes": 1}, {"bytes": 1}, {"bytes": 100}, {"bytes": 1000}, {"bytes": 1000}],
 "ops": [{"cost": 1, "inputs": [1], "outputs": [2]}, {"cost": 1, "inputs": [2], "outputs": [3, 4]},
         {"cost": 1, "inputs": [0, 1, 3, 4], "outputs": [5]}, {"cost": 1, "inputs": [5], "outputs": [6]}],
 "results": [4, 2]}
END
expect 0 solve stages.json --budget 3010
expect 3 solve stages.json --budget 3010 --strategy ilp
err_has "no schedule that advances by stages fits"
err_has "another strategy found a schedule at 3.01 kB (3010 bytes), which fits"

# A strategy that gives up: not a proof.
expect 4 solve graph.json --budget 5 --strategy checkpoint-all -o schedule.json
err_has "strategy checkpoint-all has no schedule that fits 5 B"
[ ! -e schedule.json ] || fail "a fruitless solve wrote a schedule"
expect 4 solve graph.json --budget 5 --strategy checkpoint-all --json
[ "$(member status)" = unknown ] || fail "status is $(member status)"
[ "$(member peak_bytes)" = null ] || fail "peak without a schedule"
[ "$(member least_peak_bytes)" = null ] || fail "a least peak without a search for it"
if grep -q "was found" err.txt; then
    fail "something was found without a search: $(cat err.txt)"
fi

# Between what is proven to be needed and what is known to fit: undecided, and both are named.
expect 4 solve graph.json --budget 4 --strategy chen-sqrt
err_has "undecided between 4 B (4 bytes), which every schedule needs, and what is known to fit"
err_has "a schedule at 8 B (8 bytes) was found"
one_error_line

# What is said to have been found fits, and is known although no strategy ran: here it is the floor.
expect 3 solve graph.json --budget 3 --json
known=$(member least_peak_bytes)
[ "$known" = 4 ] || fail "the least peak found is '$known', expected the floor, 4"
expect 0 solve graph.json --budget "$known" --strategy local-search --time-limit 1
finish
