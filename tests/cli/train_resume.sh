# SPDX-License-Identifier: Apache-2.0
# Interrupted training continues bit for bit: after an orderly end, a signal, a kill; at another budget; and a file is
# whole in every case.
. "$(dirname "$0")/lib.sh"

small="--data synthetic --input-shape 16,16,3 --batch 8 --samples 48 -j 1 --optimizer adam --seed 5 --costs flops"

# losses FILE: step and loss of every line of a log.
losses() {
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\), "mean.*/\1 \2/p' "$1"
}

expect 0 train test $small --steps 14 --log whole.jsonl --save whole.safetensors
out_has 'whole.safetensors, after 14 steps'
[ "$(losses whole.jsonl | wc -l)" -eq 14 ] || fail "the log has not 14 steps: $(cat whole.jsonl)"

expect 0 train test $small --steps 5 --save parts5.safetensors
expect 0 train test $small --classes 5 --steps 5 --save classes.safetensors

# In two parts, the second at a tighter budget (seed and batch come from the file).
expect 0 train test $small --steps 5 --log parts.jsonl --save parts.safetensors
expect 0 train test --data synthetic --input-shape 16,16,3 --samples 48 -j 1 --optimizer adam --costs flops --fused \
    --budget 90% --time-limit 2 --steps 14 --log parts.jsonl --resume parts.safetensors --save parts.safetensors
cmp whole.safetensors parts.safetensors || fail "resumed training ends in another state"
losses whole.jsonl > whole.txt
losses parts.jsonl > parts.txt
cmp whole.txt parts.txt || fail "resumed training has other losses: $(diff whole.txt parts.txt)"
grep -q 'step 5 of parts.safetensors' err.txt || fail "the position to resume from is not reported: $err"

# Sizes come from the file, too; one that differs is named.
expect 0 train test --data synthetic --samples 48 -j 1 --optimizer adam --costs flops --steps 7 \
    --resume parts5.safetensors --save sizes.safetensors
expect 0 train test $small --steps 7 --save straight7.safetensors
cmp straight7.safetensors sizes.safetensors || fail "with the sizes of the file, training ends in another state"
expect 1 train test --data synthetic --input-shape 16,20,3 --samples 48 -j 1 --optimizer adam --costs flops --steps 7 \
    --resume parts5.safetensors
one_error_line
err_has 'parts5.safetensors: was trained with --input-shape 16,16,3'
expect 1 train test --data synthetic --classes 7 --samples 48 -j 1 --optimizer adam --costs flops --steps 7 \
    --resume classes.safetensors
one_error_line
err_has 'classes.safetensors: was trained with --classes 5'
expect 0 train test --data synthetic --samples 48 -j 1 --optimizer adam --costs flops --steps 7 --resume classes.safetensors

# Another seed gives another run: what is compared above can differ.
expect 0 train test $small --steps 14 --seed 6 --save other.safetensors
cmp -s whole.safetensors other.safetensors && fail "the seed has no effect"

# Stopped by SIGTERM: exit status 0, state saved, resumes bit for bit.
"$CHECKMATE" train test $small --steps 100000 --save stopped.safetensors --json > stopped.json 2> stopped.err &
pid=$!
i=0
while [ ! -s stopped.safetensors ] && [ $i -lt 600 ]; do
    sleep 0.1
    i=$((i + 1))
done
kill -s TERM "$pid"
wait "$pid"
[ $? -eq 0 ] || fail "stopping by SIGTERM: exit status not 0: $(cat stopped.err)"
grep -q '"status": "stopped"' stopped.json || fail "stopping is not reported: $(cat stopped.json)"
done_steps=$(sed -n 's/.*"saved_step": \([0-9]*\).*/\1/p' stopped.json)
expect 0 train test $small --steps $((done_steps + 3)) --resume stopped.safetensors --save stopped.safetensors
expect 0 train test $small --steps $((done_steps + 3)) --save straight.safetensors
cmp stopped.safetensors straight.safetensors || fail "after a signal at step $done_steps training continues differently"

# Killed at a random moment while saving all the time: the file is whole, and training continues from it.
"$CHECKMATE" train test $small --steps 100000 --save killed.safetensors --save-every 1 > /dev/null 2> killed.err &
pid=$!
i=0
while [ ! -s killed.safetensors ] && [ $i -lt 600 ]; do
    sleep 0.1
    i=$((i + 1))
done
sleep 0.3
kill -s KILL "$pid"
wait "$pid" 2> /dev/null
# From wherever it was: to a few steps later, against a straight run to the same step.
expect 1 train test $small --steps 1 --resume killed.safetensors
at=$(printf '%s\n' "$err" | sed -n 's/.*already holds \([0-9]*\) steps.*/\1/p')
[ -n "$at" ] || fail "the step of the killed run is not reported: $err"
expect 0 train test $small --steps $((at + 2)) --resume killed.safetensors --save killed.safetensors
expect 0 train test $small --steps $((at + 2)) --save straight.safetensors
cmp killed.safetensors straight.safetensors || fail "after a kill at step $at training continues differently"

finish
