# SPDX-License-Identifier: Apache-2.0
# Budgets and devices mean the same in every command that takes one.
. "$(dirname "$0")/lib.sh"

expect 0 graph linear8 --batch 4 -o graph.json
# solve_bytes BUDGET: what solve makes of it.
solve_bytes() {
    expect 0 solve graph.json --budget "$1" --strategy checkpoint-all -o schedule.json
    expect 0 solve graph.json --budget "$1" --strategy checkpoint-all --json
    member budget_bytes
}
[ "$(solve_bytes 4G)" = 4000000000 ] || fail "4G is $(solve_bytes 4G) bytes"
[ "$(solve_bytes 2500M)" = 2500000000 ] || fail "2500M is $(solve_bytes 2500M) bytes"
[ "$(solve_bytes H100)" = 80000000000 ] || fail "H100 is $(solve_bytes H100) bytes"
[ "$(solve_bytes h200)" = 141000000000 ] || fail "h200 is $(solve_bytes h200) bytes"
[ "$(solve_bytes auto)" -gt 1000000 ] || fail "auto is $(solve_bytes auto) bytes"
# verify counts as solve does.
for budget in 4G H100 auto 100% 100%act; do
    expect 0 verify graph.json schedule.json --budget "$budget"
done
expect 1 verify graph.json schedule.json --budget 1k
expect 1 verify graph.json schedule.json --budget min
err_has "searched for"
# The memory of a device, and its times.
expect 0 solve linear8 --batch 4 --device H100 --strategy checkpoint-all --json
[ "$(member budget_bytes)" = 80000000000 ] || fail "--device H100: $(member budget_bytes) bytes"
cost=$(member cost)
expect 0 solve linear8 --batch 4 --costs device:H100 --budget H100 --strategy checkpoint-all --json
[ "$(member cost)" = "$cost" ] || fail "--device and --costs device: differ: $cost, $(member cost)"
expect 0 solve linear8 --batch 4 --device H100 --budget 1GB --strategy checkpoint-all --json
[ "$(member budget_bytes)" = 1000000000 ] || fail "--device H100 --budget 1GB: $(member budget_bytes) bytes"
expect 2 solve linear8 --device H100 --costs device:V100
expect 2 solve linear8 --device Xeon
err_has "memory of --device Xeon is not known"
expect 2 solve graph.json --device H100
expect 2 solve graph.json --budget H1000
err_has "a device such as H100"

# The largest batch of a device: its memory, samples a second, and the schedule.
expect 0 max-batch linear8 --device V100 --strategy checkpoint-all --batch-step 1000000 -o best.json --json
[ "$(member memory_bytes)" = 16000000000 ] || fail "--device V100: $(member memory_bytes) bytes"
batch=$(member max_batch)
peak=$(member peak_bytes)
rate=$(member samples_per_second)
expect 0 explain linear8 --batch "$batch" --device V100 best.json
expect 0 solve linear8 --batch "$batch" --device V100 --strategy checkpoint-all --json
[ "$(member peak_bytes)" = "$peak" ] || fail "max-batch has a peak of $peak, solve $(member peak_bytes)"
awk -v batch="$batch" -v ns="$(member cost)" -v rate="$rate" \
    'BEGIN { r = batch / (ns * 1e-9) / rate; exit !(r > 0.999999 && r < 1.000001) }' ||
    fail "$rate samples a second, at batch $batch in $(member cost) ns"
expect 0 max-batch linear8 --budget 16GB --strategy checkpoint-all --batch-step 1000000 --json
[ "$(member samples_per_second)" = null ] || fail "multiply-accumulates have no seconds: $out"
expect 2 max-batch linear8 --memory 60%
expect 2 max-batch linear8 --memory min
expect 2 max-batch linear8
finish
