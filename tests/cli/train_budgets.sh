# SPDX-License-Identifier: Apache-2.0
# Training at several budgets: the same losses to the last bit, within the budget as planned and as measured; --check
# agrees; images are learnt; weights travel through ONNX and back.
. "$(dirname "$0")/lib.sh"

losses() {
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\), "mean.*/\1 \2/p' "$1"
}

small="--data synthetic --input-shape 32,32,3 --batch 8 --samples 64 -j 1 --fused --costs flops --time-limit 10 --lr 0.0001"
for budget in auto 90% 80%; do
    expect 0 train linear8 $small --budget $budget --steps 6 --log "log-$budget" --json
    json_keys status steps next_step saved_step first_loss last_loss mean_loss accuracy perplexity bits_per_byte validation_loss \
        validation_accuracy validation_perplexity validation_bits_per_byte best_validation_loss best_step seconds step_seconds \
        step_predicted_seconds overhead \
        budget_bytes used_bytes region_bytes arena_bytes outside_bytes kernel_bytes anonymous_growth_bytes resident_growth_bytes \
        planning_bytes process_growth_bytes baseline_bytes strategy pictures_left_out augment step_batches ranks
    [ "$(member used_bytes)" -le "$(member budget_bytes)" ] || fail "$budget: uses more than the budget: $out"
    # With room for everything a run takes what it is said to take without rematerialization.
    [ "$budget" != auto ] || [ "$(member used_bytes)" -eq "$(member baseline_bytes)" ] || fail "$budget: more than needed: $out"
    # AddressSanitizer needs shadow memory for every byte.
    grep -q __asan_init "$CHECKMATE" || [ $(($(member anonymous_growth_bytes) + $(member kernel_bytes))) -le "$(member budget_bytes)" ] ||
        fail "$budget: grew beyond the budget: $out"
    # What planning freed was returned to the system: the whole process has little outside the budget, and reports how much.
    grep -q __asan_init "$CHECKMATE" || [ "$(member planning_bytes)" -lt 8000000 ] && [ "$(member process_growth_bytes)" -gt 0 ] || fail "$budget: planning keeps much: $out"
    [ $(($(member process_growth_bytes) - $(member planning_bytes))) -le $(($(member anonymous_growth_bytes) + $(member kernel_bytes))) ] ||
        fail "$budget: the parts of the process's memory do not add up: $out"
    losses "log-$budget" > "losses-$budget"
    cmp losses-auto "losses-$budget" || fail "other losses at a budget of $budget"
done
# The tightest one did compute something again.
case $(member overhead) in
0 | 0.0 | null) fail "nothing was recomputed at 80 %: $out" ;;
esac

expect 0 train linear8 $small --budget 90% --steps 2 --quiet
[ -z "$err" ] || fail "--quiet is not: $err"
out_has 'loss '
expect 2 train linear8 $small --budget 90% --steps 2 -q -v
err_has 'contradict each other'

expect 0 train linear8 $small --budget 80% --check
out_has 'agree bit for bit'
expect 0 train linear8 $small --budget 80% --check --json
json_keys equal steps operators recomputations first_loss last_loss overhead why
[ "$(member equal)" = true ] || fail "--check: $out"
[ "$(member recomputations)" -gt 0 ] || fail "--check compared no recomputation: $out"

# Times of both, in turns, next to the predictions from measured costs. Checks only that they are there: timings are not tests.
export XDG_CACHE_HOME="$work/cache"
mkdir cache
timed="--data synthetic --input-shape 32,32,3 --batch 8 --samples 64 -j 1 --fused --time-limit 2"
expect 0 train linear8 $timed --budget 80% --check --steps 2 --compare 1 --json
json_keys equal steps operators recomputations first_loss last_loss overhead why rounds budget_bytes used_bytes \
    arena_bytes baseline_used_bytes baseline_arena_bytes baseline_step_seconds baseline_step_predicted_seconds \
    step_seconds step_predicted_seconds step_predicted_in_turns_seconds overhead_measured overhead_low overhead_high \
    overhead_predicted strategy
[ "$(member equal)" = true ] || fail "--check --compare: $out"
[ "$(member used_bytes)" -le "$(member budget_bytes)" ] || fail "--compare: uses more than the budget: $out"
for key in baseline_step_seconds baseline_step_predicted_seconds step_seconds step_predicted_seconds \
    step_predicted_in_turns_seconds; do
    awk -v x="$(member $key)" 'BEGIN { exit !(x > 0) }' || fail "--compare: $key is '$(member $key)'"
done
kept=$(ls cache/checkmate/linear8-b8-t1-*.json) || fail "the measured times were not kept"
# Times that were kept serve again; those taken on a busy machine are taken anew, and so are damaged ones.
sed 's/"steady": [a-z]*/"steady": true/' "$kept" > steady.json
cp steady.json "$kept"
expect 0 train linear8 $timed --budget 80% --steps 1 --verbose
case $err in
*'measuring operators'*) fail "measured again although the times were good: $err" ;;
esac
out_has 'predicted; '
sed 's/"steady": true/"steady": false/' steady.json > "$kept"
expect 0 train linear8 $timed --budget 80% --steps 1 --verbose
err_has 'measuring operators'
printf 'damaged' > "$kept"
expect 0 train linear8 $timed --budget 80% --steps 1 --verbose
err_has 'measuring operators'

# The system itself refuses more than the budget and a constant: training within the budget does not need more, training
# without rematerialization does. (AddressSanitizer cannot live under such a limit.)
if ! grep -q __asan_init "$CHECKMATE"; then
    wide="--data synthetic --input-shape 64,64,3 --batch 32 --samples 64 -j 1 --fused --costs flops --time-limit 5 --steps 1"
    expect 0 train linear8 $wide --budget 70% --json
    limit=$(($(member budget_bytes) + 32000000))
    [ "$(member baseline_bytes)" -gt "$limit" ] || fail "the limit does not tell the two apart: $out"
    expect 0 train linear8 $wide --budget 70% --memory-limit $limit
    expect 1 train linear8 $wide --budget auto --memory-limit $limit
    err_has 'cannot be allocated'
fi

# A folder of images, if the example that makes them is built: the loss falls.
digits=${CKM_BINARY_DIR:-/nowhere}/examples/make_digits
if [ -x "$digits" ]; then
    "$digits" digits 80 16 > digits.log || fail "make_digits failed"
    expect 0 train test --data digits --input-shape 16,16,3 --batch 16 --epochs 30 -j 1 --optimizer adam --lr 0.01 \
        --costs flops --json
    awk -v a="$(member first_loss)" -v b="$(member last_loss)" 'BEGIN { exit !(b < a / 2) }' ||
        fail "the loss does not fall: $out"
    printf 'damaged' > digits/7/00007.png
    expect 1 train test --data digits --input-shape 16,16,3 --batch 16 -j 1 --strict
    one_error_line
    err_has 'digits/7/00007.png: is not a valid PNG image'
fi

# ONNX: trained weights go into a copy of the file, and are where training from that copy begins.
tiny="--data synthetic --batch 8 --samples 64 -j 1 --costs flops --momentum 0"
expect 0 train "$data/mlp.onnx" $tiny --steps 3 --export trained.onnx --save trained.safetensors --lr 0.001 --json
expect 0 train trained.onnx $tiny --steps 1 --lr 0 --export again.safetensors
err_has "tensors from the model's file"
expect 0 train "$data/mlp.onnx" $tiny --steps 4 --lr 0 --change lr --resume trained.safetensors --export resumed.safetensors
cmp again.safetensors resumed.safetensors || fail "weights changed on their way through ONNX"

# A file whose operators are in training mode would not predict what was trained: its copy is in evaluation mode, and that is said.
onnx=$shared/onnx/squeezenet1_1.onnx
if [ -r "$onnx" ]; then
    expect 0 train "$onnx" --data synthetic --input-shape 64,64,3 --batch 2 --samples 8 --costs flops --steps 1 --export copy.onnx
    err_has '("/classifier/classifier.0/Dropout"); the copy with the trained weights has it in evaluation mode'
    [ -s copy.onnx ] || fail "the copy was not written"
else
    printf 'SKIPPED in part: %s is not there\n' "$onnx" >&2
fi

finish
