# SPDX-License-Identifier: Apache-2.0
# Steps of several batches in one process: the mean of their gradients, within a budget, going on bit for bit.
. "$(dirname "$0")/lib.sh"

# losses FILE: step and loss of every line of a log.
losses() {
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\), "mean.*/\1 \2/p' "$1"
}

small="--data synthetic --input-shape 16,16,3 --samples 48 -j 1 --costs flops"

# Without batch norm, two batches of 4 are one of 8 but for rounding: the same samples, losses that hardly differ.
expect 0 train test $small --batch 8 --steps 12 --log whole.jsonl
expect 0 train test $small --batch 4 --accumulate 2 --steps 12 --log parts.jsonl --save straight.safetensors --json
[ "$(member step_batches)" -eq 2 ] || fail "the result does not say two batches a step: $out"
grep -q '^step  *2 batches, one after the other' err.txt || fail "the plan does not say two batches a step: $err"
losses whole.jsonl > whole.txt
losses parts.jsonl > parts.txt
paste -d ' ' whole.txt parts.txt | awk '
    { d = $2 - $4; if ($1 != $3 || d > 1e-4 || d < -1e-4) bad = 1 }
    END { exit bad || NR != 12 }' || fail "two batches of 4 are not one of 8: $(paste -d ' ' whole.txt parts.txt)"
# Without the second batch they do differ.
expect 0 train test $small --batch 4 --steps 12 --log half.jsonl
losses half.jsonl > half.txt
paste -d ' ' whole.txt half.txt | awk '{ d = $2 - $4; if (d > 1e-4 || d < -1e-4) bad = 1 } END { exit !bad }' ||
    fail "other batches give the same losses"

# In two parts, and with updates as early as possible; the sums are not saved.
expect 0 train test $small --batch 4 --accumulate 2 --steps 5 --save part.safetensors
expect 0 train test $small --accumulate 2 --fused --steps 12 --resume part.safetensors --save part.safetensors
cmp straight.safetensors part.safetensors || fail "training continues differently"
head -c 20000 straight.safetensors | grep -q ':sum"' && fail "sums of gradients are saved"
expect 1 train test $small --steps 12 --resume part.safetensors
err_has 'batches=2'
one_error_line

# Batch norm and dropout at 70 % of the peak: the bits of a run without a budget.
norm="--data synthetic --input-shape 64,64,3 --batch 16 --samples 100 -j 1 --costs flops --time-limit 5 --steps 3 --accumulate 3"
expect 0 train MobileNet $norm --save free.safetensors
expect 0 train MobileNet $norm --save tight.safetensors --fused --budget 70% --json
cmp free.safetensors tight.safetensors || fail "other weights within a budget"
[ "$(member overhead)" != 0 ] || fail "the budget asked for no rematerialization: $out"
grep -q __asan_init "$CHECKMATE" || [ $(($(member anonymous_growth_bytes) + $(member kernel_bytes))) -le "$(member budget_bytes)" ] ||
    fail "grew beyond the budget: $out"

expect 1 train test $small --batch 4 --accumulate 13
err_has 'a step takes 13 batches, and an epoch of the data has only 12'
expect 2 train test $small --accumulate 0
finish
