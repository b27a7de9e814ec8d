# SPDX-License-Identifier: Apache-2.0
# max-batch: the figures of the Checkmate paper on VGG19, 16 GB, one extra forward pass, its accounting.
. "$(dirname "$0")/lib.sh"

keys="max_batch upper_bound bound_covers overhead peak_bytes seconds status memory_bytes samples_per_second"
paper="--granularity layer --memory 16GB --accounting paper --json"

# largest EXPECTED ARGUMENTS...
largest() {
    figure=$1
    shift
    # shellcheck disable=SC2086 # the words are arguments
    expect 0 max-batch VGG19 $paper "$@"
    json_keys $keys
    [ "$(member max_batch)" = "$figure" ] || fail "max-batch VGG19 $*: $(member max_batch), expected $figure"
}

largest 167 --strategy checkpoint-all
largest 197 --strategy chen-sqrt
largest 266 --strategy chen-greedy
largest 164 --strategy checkpoint-all --batch-min 4 --batch-step 8
largest 196 --strategy chen-sqrt --batch-min 4 --batch-step 8
largest 260 --strategy chen-greedy --batch-min 4 --batch-step 8
largest 289 --strategy ilp
[ "$(member upper_bound)" = 289 ] || fail "upper bound $(member upper_bound), expected 289"
[ "$(member status)" = optimal ] || fail "status $(member status), expected optimal"

# By the normal rule checkpoint-all gets as far as its peak goes: the batch fits and the next one does not.
expect 0 max-batch VGG19 --memory 16GB --strategy checkpoint-all --json
batch=$(member max_batch)
peak=$(member peak_bytes)
[ "$peak" -le 16000000000 ] || fail "peak $peak is over the memory"
expect 0 solve VGG19 --batch "$batch" --budget 16GB --strategy checkpoint-all --json
[ "$(member peak_bytes)" = "$peak" ] || fail "solve finds peak $(member peak_bytes), max-batch $peak"
expect 4 solve VGG19 --batch $((batch + 1)) --budget 16GB --strategy checkpoint-all
# A factor of 1 allows no recomputation: no strategy gets further than keeping everything.
expect 0 max-batch VGG19 --memory 16GB --strategy chen-greedy --compute-limit 1 --json
[ "$(member max_batch)" = "$batch" ] || fail "at factor 1: $(member max_batch), expected $batch"
[ "$(member overhead)" = 0 ] || fail "at factor 1: overhead $(member overhead)"

# What is refused for its cost fits the memory: the claim names the limit and the class it was proven for.
expect 0 solve linear8 --batch 1 --budget 50MB --json
expect 3 max-batch linear8 --memory 50MB --compute-limit 1.05 --json
[ "$(member bound_covers)" = order ] || fail "infeasible, but of which class? $out"
[ "$err" = "checkmate: no schedule in the graph's order within the compute limit fits 50.00 MB, not even for batch 1" ] ||
    fail "not what was proven: $err"
finish
