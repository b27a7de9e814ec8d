# SPDX-License-Identifier: Apache-2.0
# When a step exceeds its budget after all: training stops after saving, or continues with a warning, as requested.
. "$(dirname "$0")/lib.sh"

[ -n "${CKM_EXCESS_PRELOAD:-}" ] || skip "no library to preload in this build"

# train BYTES ARGUMENT...: with BYTES bytes allocated behind its back after the first step.
train() {
    bytes=$1
    shift
    rm -f log.jsonl
    LD_PRELOAD=$CKM_EXCESS_PRELOAD CKM_EXCESS_AFTER=log.jsonl CKM_EXCESS_BYTES=$bytes "$CHECKMATE" train linear8 \
        --data synthetic --input-shape 32,32,3 --batch 16 --samples 64 --fused --costs flops --time-limit 1 --lr 1e-6 --steps 40 --budget 100% --log log.jsonl "$@" \
        > out.json 2> err.txt
    status=$?
    out=$(cat out.json)
}

train 0 --json
[ "$status" -eq 0 ] || fail "nothing taken: exit $status: $(cat err.txt)"
budget=$(member budget_bytes)
grep -q 'more than the budget' err.txt && fail "nothing taken, but: $(cat err.txt)"

train "$budget" --save state.safetensors --json
[ "$status" -eq 1 ] || fail "stop: exit $status: $(cat err.txt)"
grep -q 'step [0-9]*: memory grew by .*, more than the budget of .*; the state is in state.safetensors; this should not happen' err.txt ||
    fail "stop: $(cat err.txt)"
run train linear8 --data synthetic --input-shape 32,32,3 --batch 16 --samples 64 --fused --costs flops --time-limit 1 \
    --lr 1e-6 --change lr --steps 41 --budget 100% --resume state.safetensors
[ "$status" -eq 0 ] || fail "the saved state cannot be resumed: $err"

train "$budget" --on-excess continue --json
[ "$status" -eq 0 ] || fail "continue: exit $status: $(cat err.txt)"
[ "$(grep -c 'warning: step [0-9]*: memory grew by .*, more than the budget of .*; training continues' err.txt)" -eq 1 ] ||
    fail "continue: not one warning: $(cat err.txt)"
[ "$(member anonymous_growth_bytes)" -gt "$budget" ] || fail "continue: the growth is not in the result: $out"
finish
