# SPDX-License-Identifier: Apache-2.0
# Training that moves tensors to a file and back: the same bits, within budgets that recomputing does not reach, nothing left behind,
# and every way in which a disk can fail.
. "$(dirname "$0")/lib.sh"

losses() {
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\), "mean.*/\1 \2/p' "$1"
}

mkdir disk
small="--data synthetic --input-shape 32,32,3 --batch 8 --samples 64 -j 1 --fused --costs device:V100 --time-limit 1 --lr 0.0001"
# A link that costs nothing is used.
free="--offload disk --out-speed 1000GB --in-speed 1000GB --transfer-latency 1"

expect 0 train linear8 $small --steps 4 --budget 100% --save whole.safetensors --log whole.log --json
# within P: P hundredths of what the last run, without rematerialization, takes, but all of its kernels, whose size differs between
# versions of oneDNN.
within() {
    echo $(($(member kernel_bytes) + ($(member used_bytes) - $(member kernel_bytes)) * $1 / 100))
}
tight=$(within 65)
expect 0 train linear8 $small --steps 4 --budget $tight $free --save moved.safetensors --log moved.log --json
for key in second_memory out_bytes_per_second in_bytes_per_second latency_ns moved_out_bytes moved_in_bytes moves_out moves_in offload_file_bytes \
    transfer_wait_seconds offload_direct; do
    [ -n "$(member $key)" ] || fail "no member $key: $out"
done
moves=$(member moves_out)
moved=$(member moved_out_bytes)
[ "$moves" -gt 0 ] && [ "$(member moves_in)" -ge "$moves" ] && [ "$moved" -gt 0 ] || fail "nothing is moved: $out"
[ "$(member offload_file_bytes)" -ge 4096 ] || fail "the file holds nothing: $out"
[ "$(member used_bytes)" -le "$(member budget_bytes)" ] || fail "uses more than the budget: $out"
grep -q __asan_init "$CHECKMATE" || [ $(($(member anonymous_growth_bytes) + $(member kernel_bytes))) -le "$(member budget_bytes)" ] ||
    fail "grew beyond the budget: $out"
losses whole.log > whole.losses
losses moved.log > moved.losses
[ -s whole.losses ] && cmp whole.losses moved.losses || fail "other losses"
cmp whole.safetensors moved.safetensors || fail "another state"
[ -z "$(ls -A disk)" ] || fail "left behind: $(ls -A disk)"
grep -q '^offload   disk: .*/s out, .*/s in' err.txt || fail "the plan does not say where things go: $err"
grep -q 'a step moves .* out (.*) and .* in (.*); a file of' err.txt || fail "the plan does not say what is moved: $err"

expect 0 train linear8 $small --steps 2 --budget $tight $free
out_has 'moved  '
expect 0 train linear8 $small --budget $tight $free --check
out_has 'agree bit for bit'
expect 0 train linear8 $small --budget $tight $free --compare 1 --json
# Gradients of several batches, and validation between the steps.
expect 0 train linear8 $small --steps 2 --accumulate 2 --budget 100% --save whole2.safetensors --json
tight2=$(within 70)
roomy2=$(within 75)
expect 0 train linear8 $small --steps 2 --accumulate 2 --budget $roomy2 $free --validate 25% -q
expect 0 train linear8 $small --steps 2 --accumulate 2 --budget $tight2 $free --save moved2.safetensors --json
[ "$(member moves_out)" -gt 0 ] || fail "several batches: nothing is moved: $out"
cmp whole2.safetensors moved2.safetensors || fail "several batches: another state"
# With room for everything nothing is moved, and no file is made.
expect 0 train linear8 $small --steps 1 --budget 100% $free --json
[ "$(member moves_out)" -eq 0 ] && [ "$(member offload_file_bytes)" -eq 0 ] || fail "moves without need: $out"
# Speeds are measured where they are not given, and operators by a schedule that moves.
mkdir cache
XDG_CACHE_HOME=$work/cache "$CHECKMATE" train linear8 --data synthetic --input-shape 32,32,3 --batch 8 --samples 64 -j 1 \
    --fused --time-limit 1 --lr 0.0001 --steps 4 --budget $tight --offload disk --save measured.safetensors -v > out.txt 2> err.txt ||
    fail "measured: $(cat err.txt)"
grep -q '^second memory disk: [0-9]* MB/s out, [0-9]* MB/s in, latency [0-9]* us, measured' err.txt || fail "measured: $(cat err.txt)"
cmp whole.safetensors measured.safetensors || fail "measured: another state"

# Without threads for it operators wait, and the bits are the same.
if [ -x "${CKM_FAULT_SWEEP:-}" ]; then
    # The program starts itself anew where this is not set, and would lose the tool.
    GOMP_SPINCOUNT=1000 OMP_STACKSIZE=512k "$CKM_FAULT_SWEEP" --kind thread --at 0 --from-then --succeeds --lines 40 --check "cmp whole.safetensors none.safetensors" \
        --product none.safetensors -- "$CHECKMATE" train linear8 $small --steps 4 --budget $tight $free --save none.safetensors > report.txt ||
        fail "no thread: $(cat report.txt)"
    grep -q 'operators wait for it, as threads for it could not be started' report.txt || fail "no thread: $(cat report.txt)"
fi

# Below what any schedule needs that only recomputes.
large="--data synthetic --input-shape 32,32,3 --batch 64 --samples 64 -j 1 --fused --costs device:V100 --lr 0.0001 --steps 2"
expect 3 train MobileNet $large --time-limit 1 --budget 1MB
floor=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes) are proven.*/\1/p' err.txt)
[ -n "$floor" ] || fail "no floor: $err"
expect 0 train MobileNet $large --time-limit 1 --budget 100% --save whole3.safetensors -q
# A busy machine gives the search less of a processor than its seconds say: then it has more of them.
for seconds in 4 16 64; do
    run train MobileNet $large --time-limit $seconds --budget $((floor - 200000)) --offload disk --out-speed 1GB --in-speed 1GB \
        --transfer-latency 20000 --save moved3.safetensors --json
    [ "$status" -eq 4 ] || break
done
[ "$status" -eq 0 ] || fail "below the floor: exit status $status: $err"
[ "$(member used_bytes)" -lt "$floor" ] || fail "below the floor: uses $(member used_bytes) of $floor"
cmp whole3.safetensors moved3.safetensors || fail "below the floor: another state"

# The least budget is one that only moving reaches, far enough below the floor of recomputing alone for a machine that is busy.
wide="--data synthetic --input-shape 32,32,3 --batch 64 --samples 64 -j 1 --fused --costs device:V100 --lr 0.0001 --steps 2"
expect 3 train linear8 $wide --time-limit 1 --budget 1MB
floor=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes) are proven.*/\1/p' err.txt)
[ -n "$floor" ] || fail "no floor: $err"
expect 0 train linear8 $wide --time-limit 1 --budget 100% --save whole4.safetensors -q
expect 0 train linear8 $wide --time-limit 10 --budget min --offload disk --out-speed 1GB --in-speed 1GB --transfer-latency 20000 \
    --save moved4.safetensors --json
[ "$(member budget_bytes)" -lt "$floor" ] || fail "--budget min is $(member budget_bytes), no less than recomputing alone needs, $floor"
[ "$(member used_bytes)" -le "$(member budget_bytes)" ] || fail "--budget min: uses more: $out"
[ "$(member moves_out)" -gt 0 ] || fail "--budget min moves nothing: $out"
cmp whole4.safetensors moved4.safetensors || fail "--budget min: another state"

# What contradicts itself, what cannot be.
expect 2 train linear8 $small --steps 1 --budget $tight --out-speed 1GB
err_has 'with --offload DIR'
expect 2 train linear8 $small --steps 1 --budget $tight --offload ''
expect 2 train linear8 $small --steps 1 --budget $tight --offload disk --out-speed 0
expect 2 train linear8 $small --steps 1 --budget $tight --offload disk --second-memory 0
expect 2 train linear8 --data synthetic --costs flops --offload disk
err_has 'needs costs that are times'
expect 1 train linear8 $small --steps 1 --budget $tight --offload missing
err_has 'missing: cannot make a file for what is moved out: No such file or directory; name a folder'
expect 1 train linear8 $small --steps 1 --budget $tight --offload missing --out-speed 1GB --in-speed 1GB --transfer-latency 1
err_has 'missing: cannot make a file'
: > file
expect 1 train linear8 $small --steps 1 --budget $tight --offload file
err_has 'file: cannot make a file for what is moved out: Not a directory'
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod a-w locked
    expect 1 train linear8 $small --steps 1 --budget $tight --offload locked
    err_has 'locked: cannot make a file for what is moved out: Permission denied'
fi
[ -n "${CKM_DISK_PRELOAD:-}" ] || { [ "$failed" -eq 0 ] && skip "no library to preload in this build: disks do not fail"; finish; }

# disk HOW ARGUMENT...: trains on a disk that behaves like that after the first step.
disk() {
    how=$1
    shift
    LD_PRELOAD=$CKM_DISK_PRELOAD CKM_DISK=$how CKM_DISK_AFTER=${after:-0} CKM_DISK_MICROSECONDS=${delay:-0} "$CHECKMATE" train linear8 \
        $small --steps 4 --budget $tight $free "$@" > out.txt 2> err.txt
    status=$?
    out=$(cat out.txt)
    err=$(cat err.txt)
    [ -z "$(ls -A disk)" ] || fail "$how: left behind: $(ls -A disk)"
}

# fails HOW MESSAGE: one line that names the folder; the state that was saved last is there, and can be resumed.
fails() {
    rm -f state.safetensors
    disk "$1" -q --save state.safetensors --save-every 1
    [ "$status" -eq 1 ] || fail "$1: exit $status: $err"
    [ "$(grep -c '^checkmate: disk: ' err.txt)" -eq 1 ] && [ "$(wc -l < err.txt)" -eq 1 ] || fail "$1: not one error: $err"
    grep -q "$2" err.txt || fail "$1: $err"
}

fails full 'bytes for what is moved out cannot be had: No space left on device; free as many'
[ ! -e state.safetensors ] || fail "full: trained all the same"
# As many calls as two steps make: another plan, with half of them or twice as many, has saved a step and not ended by then.
after=$((2 * (moved / 262144 + moves) + 4))
while IFS='|' read -r how message; do
    fails "$how" "$message"
    expect 0 train linear8 $small --steps 4 --budget 100% --resume state.safetensors --save on.safetensors -q
    cmp whole.safetensors on.safetensors || fail "$how: the saved state cannot be resumed"
done << 'X'
write|writing what is moved out failed: Input/output error; .*resume from the state that was saved last
no-space|writing what is moved out failed: No space left on device
read|reading back what was moved out failed: Input/output error
end-write|written in part only
end-read|read back in part only
damage|not what was moved out, their checksums differ
X

# Disks that are only strange: the same bits.
after=0
delay=3000
for how in pieces cached slow; do
    disk "$how" --save strange.safetensors --json
    [ "$status" -eq 0 ] || fail "$how: exit $status: $err"
    cmp whole.safetensors strange.safetensors || fail "$how: another state"
    [ "$how" != cached ] || [ "$(member offload_direct)" = false ] || fail "cached: $out"
done
grep -q '"transfer_wait_seconds": 0\.' out.txt || fail "a slow disk is not waited for: $out"

# Signals while it waits for the disk: the state is saved; killed, nothing stays.
LD_PRELOAD=$CKM_DISK_PRELOAD CKM_DISK=slow CKM_DISK_MICROSECONDS=20000 "$CHECKMATE" train linear8 $small --steps 1000 --budget $tight $free \
    --save stopped.safetensors --log stopped.log --json > out.txt 2> err.txt &
process=$!
until [ -s stopped.log ] || ! kill -0 "$process" 2> /dev/null; do sleep 0.1; done
kill -TERM "$process"
wait "$process" || fail "SIGTERM: exit $?: $(cat err.txt)"
out=$(cat out.txt)
[ "$(member status)" = '"stopped"' ] || [ "$(member status)" = stopped ] || fail "SIGTERM: $out"
[ -s stopped.safetensors ] || fail "SIGTERM: nothing saved"
[ -z "$(ls -A disk)" ] || fail "SIGTERM: left behind: $(ls -A disk)"
rm -f stopped.log
LD_PRELOAD=$CKM_DISK_PRELOAD CKM_DISK=slow CKM_DISK_MICROSECONDS=20000 "$CHECKMATE" train linear8 $small --steps 1000 --budget $tight $free \
    --log stopped.log > out.txt 2> err.txt &
process=$!
until [ -s stopped.log ] || ! kill -0 "$process" 2> /dev/null; do sleep 0.1; done
kill -KILL "$process"
wait "$process" 2> /dev/null
[ -z "$(ls -A disk)" ] || fail "killed: left behind: $(ls -A disk)"
finish
