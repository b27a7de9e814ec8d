#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A graph with a second memory on the command line: solved, written, verified; what cannot move says so.
. "${0%/*}/lib.sh"

cat > moving.json <<'X'
{"format": "checkmate-graph", "version": 2, "name": "chain", "cost_unit": "ns",
 "second_memory": {"out_bytes_per_second": 200000000, "in_bytes_per_second": 200000000, "latency_ns": 10},
 "tensors": [{"bytes": 1}, {"bytes": 100}, {"bytes": 100}, {"bytes": 100}, {"bytes": 100}, {"bytes": 100}, {"bytes": 100},
             {"bytes": 100}, {"bytes": 100}],
 "ops": [{"cost": 1000, "inputs": [0], "outputs": [1]}, {"cost": 1000, "inputs": [1], "outputs": [2]},
         {"cost": 1000, "inputs": [2], "outputs": [3]}, {"cost": 1000, "inputs": [3], "outputs": [4]},
         {"kind": "backward", "cost": 1000, "inputs": [4], "outputs": [5]},
         {"kind": "backward", "cost": 1000, "inputs": [5, 3], "outputs": [6]},
         {"kind": "backward", "cost": 1000, "inputs": [6, 2], "outputs": [7]},
         {"kind": "backward", "cost": 1000, "inputs": [7, 1], "outputs": [8]}], "results": [8]}
X
expect 0 solve moving.json --budget 301 --time-limit 2 -o moved.json
grep -q '^moved .* out, .* in$' out.txt || fail "solve does not say what moves"
grep -q '"version": 2' moved.json || fail "a schedule with transfers is version 2"
expect 0 verify moving.json moved.json --budget 301
grep -q '^copies ' out.txt || fail "verify does not say what the second memory holds"
expect 0 verify moving.json moved.json --json
[ "$(member second_peak_bytes)" -gt 0 ] || fail "no bytes in the second memory"
[ "$(member cost)" -lt 10000 ] || fail "moving is no cheaper than recomputing"
# What waits for what, as text, JSON, a figure and a page.
expect 0 explain moving.json moved.json
for text in '^Moved: .* out in .* back in' 'computation stands still for' '^time  '; do
    grep -q -- "$text" out.txt || fail "explain does not say '$text': $out"
done
expect 0 explain moving.json moved.json --json
[ "$(member moved_out_bytes)" -gt 0 ] && [ "$(member stalled)" -gt 0 ] || fail "explain --json says nothing of moves: $out"
grep -q '"way": "in"' out.txt || fail "explain --json has no copies back"
expect 0 report moving.json moved.json -o page.html
grep -q '"transfers":\[\[' page.html || fail "the page has no transfers"
if command -v gnuplot > /dev/null; then
    expect 0 report moving.json moved.json --figure transfers -o lanes.svg
    for text in compute out back 'waits for a copy'; do
        grep -q "$text" lanes.svg || fail "the figure has no '$text'"
    done
fi
expect 0 solve moving.json --budget 301 --time-limit 1 --without transfers,moving-bound -o kept.json
grep -q '"version": 1' kept.json || fail "without transfers nothing moves"
expect 0 explain moving.json kept.json
grep -q 'Moved' out.txt && fail "explain tells of moves where there are none"
# The parts by themselves: moving alone computes nothing twice; first choices are no cheaper than the search that goes on from them.
expect 0 solve moving.json --budget 301 --time-limit 1 --without recomputing,first-choices,choices,moving-bound -o alone.json --json
[ "$(grep -o '"compute"' alone.json | wc -l)" -eq 8 ] || fail "moving alone computes again"
alone=$(member cost)
expect 0 solve moving.json --budget 301 --time-limit 1 --without moving-alone,choices,moving-bound --json
first=$(member cost)
expect 0 solve moving.json --budget 301 --time-limit 2 --json
[ "$(member cost)" -le "$first" ] && [ "$(member cost)" -le "$alone" ] || fail "together costs more than a part: $first, $alone, $out"

# What an operator takes is all that must be there at a time, and moving gets to that: 300 and the input's byte.
expect 0 solve moving.json --budget min --time-limit 2 --json -o least.json
[ "$(member least_budget_bytes)" -eq 301 ] && [ "$(member least_budget_bound_bytes)" -eq 301 ] ||
    fail "the smallest budget is not 301: $out"
[ "$(member least_budget_bound_covers)" = any ] || fail "the floor is not that of any schedule: $out"
expect 0 verify moving.json least.json --budget 301

# The same from the command line: on a graph without one, on one of the zoo, and over what the file says.
sed '/second_memory/d; s/"version": 2/"version": 1/' moving.json > plain.json
given="--out-speed 200MB --transfer-latency 10"
# shellcheck disable=SC2086
expect 0 graph plain.json $given -o again.json
# shellcheck disable=SC2086
expect 0 solve plain.json $given --budget 301 --time-limit 2 -o moved2.json
expect 0 verify again.json moved2.json --budget 301
expect 0 verify moving.json moved2.json --budget 301
# shellcheck disable=SC2086
expect 0 solve plain.json $given --budget 301 --time-limit 2 --json
[ "$(member moves_out)" -gt 0 ] || fail "JSON does not say what moves"
[ "$(member in_bytes_per_second)" -eq 200000000 ] || fail "--in-speed is not that of --out-speed"
expect 0 solve moving.json --second-memory 0 --budget 301 --time-limit 1 -o nothing.json
grep -q '"version": 1' nothing.json || fail "moves into a second memory of no bytes"
expect 0 graph linear8 --device V100 --out-speed 12GB --in-speed 10GB --second-memory 1GB -o zoo.json --json
[ "$(member in_bytes_per_second)" -eq 10000000000 ] || fail "graph --json has no second memory"
grep -q '"version": 2' zoo.json || fail "a graph with a second memory is version 2"
expect 1 solve linear8 --budget 60% --out-speed 12GB
grep -q 'costs that are times' err.txt || fail "MACs are no times: no reason"
expect 1 solve plain.json --budget 301 --second-memory 1GB
grep -q 'out-speed' err.txt || fail "a capacity without a speed: no reason"
expect 2 solve plain.json --budget 301 --out-speed 0
expect 2 graph plain.json --out-speed 1GB --in-speed 0

# Many budgets, whose least is below what recomputing reaches on a graph with an operator that must not run twice.
sed 's/"ops": \[{"cost"/"ops": [{"recomputable": false, "cost"/' plain.json > once.json
expect 0 solve once.json --budget min --time-limit 1 --json
alone=$(member least_budget_bytes)
# shellcheck disable=SC2086
expect 0 solve once.json $given --budget min --time-limit 1 --json
[ "$(member least_budget_bytes)" -lt "$alone" ] || fail "moving reaches no less than recomputing: $out"
# shellcheck disable=SC2086
expect 0 sweep once.json $given --budgets 301,401,501 --strategies auto,chen-sqrt --time-limit 0.5 --json
[ "$(member out_bytes_per_second)" -eq 200000000 ] || fail "sweep --json has no second memory"
grep -q '"budget_bytes": 301, "strategy": "auto", "status": "[fo]' out.txt || fail "sweep does not move: $(cat out.txt)"
# shellcheck disable=SC2086
expect 0 sweep once.json $given --budgets near-min --strategies auto --time-limit 0.5
grep -q ',301,auto,[fo]' out.txt || fail "near-min does not begin at the least: $(cat out.txt)"
expect 2 sweep plain.json --in-speed 0
expect 1 sweep plain.json --second-memory 1GB
err_has 'give its speed with --link or --out-speed'

# The largest batch: larger than without, within what the floor allows; nothing moves into a second memory without room.
largest="max-batch linear8 --memory 150MB --device V100 --compute-limit 1.3 --strategy chen-sqrt --time-limit 6 --json"
expect 0 $largest
without=$(member max_batch)
expect 0 $largest --out-speed 100GB -o largest.json
[ "$(member max_batch)" -gt "$without" ] || fail "a second memory gives no larger batch than $without: $out"
[ "$(member max_batch)" -le "$(member upper_bound)" ] || fail "above its own bound: $out"
grep -q '"version": 2' largest.json || fail "the largest batch does not move"
expect 0 $largest --out-speed 100GB --second-memory 0
[ "$(member max_batch)" -ge "$without" ] || fail "a second memory without room loses: $out"
expect 1 max-batch linear8 --memory 150MB --out-speed 100GB
err_has 'costs that are times'
# Links by name, of a device, of a file; what a profile has measured of a folder.
expect 0 devices --json
grep -q '"links": \[{"name": "PCIe3"' out.txt || fail "devices lists no links: $out"
expect 0 graph linear8 --device A100 --link A100 --json
[ "$(member out_bytes_per_second)" -eq 25206400000 ] || fail "--link A100 is not that of PCIe4: $out"
expect 0 graph linear8 --device A100 --link pcie5 --out-speed 1GB --json
[ "$(member out_bytes_per_second)" -eq 1000000000 ] || fail "--out-speed does not override --link: $out"
expect 1 graph linear8 --device A100 --link nonsense
err_has "there is no link called 'nonsense'"
err_has PCIe4
mkdir disk
small="linear2 --input-shape 8,8,3 --batch 1"
expect 0 profile $small -j 1 --steps 3 --offload disk -o measured.json --json
measured=$(member out_bytes_per_second)
[ "$measured" -gt 0 ] || fail "profile --offload measures nothing: $out"
expect 0 graph $small --costs measured.json --link measured.json --json
[ "$(member out_bytes_per_second)" -eq "$measured" ] || fail "--link takes another speed than was measured, $measured: $out"
expect 0 train $small --data synthetic --steps 1 --budget 100% -j 1 --costs measured.json --offload disk --link measured.json --json
[ "$(member out_bytes_per_second)" -eq "$measured" ] || fail "train --link takes another speed than was measured, $measured: $out"
expect 1 profile $small -j 1 --steps 3 --offload missing -o none.json
[ ! -e none.json ] || fail "a profile was written although the folder is missing"
expect 2 profile $small --offload ''
expect 0 profile $small -j 1 --steps 3 -o without.json
expect 1 graph $small --costs without.json --link without.json
err_has 'has no "link"'
expect 2 train $small --data synthetic --steps 1 --link PCIe4
err_has 'with --offload DIR'
finish
