# SPDX-License-Identifier: Apache-2.0
# Training in several processes: the same bits as one process that accumulates, each within the budget; what happens when a
# rank is killed, has other data, or a program without MPI is started several times.
. "$(dirname "$0")/lib.sh"

GOMP_SPINCOUNT=1000
export GOMP_SPINCOUNT
unset OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_SIZE PMI_RANK PMIX_RANK

# losses FILE: step and loss of every line of a log.
losses() {
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\), "mean.*/\1 \2/p' "$1"
}

# A launcher's variables are enough to be one of several: without MPI nothing may be trained or written.
linked=$(ldd "$CHECKMATE" 2> /dev/null | grep -c 'libmpi')
if [ "$linked" -eq 0 ]; then
    for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE; do
        env $variable=2 "$CHECKMATE" train test --data synthetic --save refused.safetensors > out.txt 2> err.txt
        status=$?
        out=$(cat out.txt)
        err=$(cat err.txt)
        [ "$status" -eq 1 ] || fail "$variable=2 without MPI: exit status $status, expected 1"
        err_has 'was started as 2 processes, but this program was built without MPI'
        one_error_line
        [ ! -e refused.safetensors ] || fail "a file was written all the same"
    done
    [ "$failed" -eq 0 ] || finish
    skip "the program was built without MPI (-DCKM_MPI=ON)"
fi
command -v mpirun > /dev/null || skip "mpirun is not there: scripts/setup.sh mpi installs it"

# ranks N STATUS ARGUMENTS...: under mpirun; sets $status, $out and $err. Status "bad": any but 0.
ranks() {
    n=$1
    wanted=$2
    shift 2
    timeout 300 mpirun --allow-run-as-root --oversubscribe -n "$n" "$CHECKMATE" "$@" > out.txt 2> err.txt < /dev/null
    status=$?
    out=$(cat out.txt)
    err=$(cat err.txt)
    [ "$status" -ne 124 ] || fail "mpirun -n $n checkmate $*: hangs"
    case $wanted in
    bad) [ "$status" -ne 0 ] || fail "mpirun -n $n checkmate $*: exit status 0" ;;
    *) [ "$status" -eq "$wanted" ] || fail "mpirun -n $n checkmate $*: exit status $status, expected $wanted: $err" ;;
    esac
}

# said_once TEXT: by one rank, and no other rank complains.
said_once() {
    [ "$(grep -c '^checkmate' err.txt)" -eq 1 ] || fail "not one error: $err"
    err_has "$1"
}

# same N ARGUMENTS...: N ranks and one process that accumulates N batches; leaves the state in ranks.safetensors.
same() {
    n=$1
    shift
    rm -f ./*.safetensors ./*.jsonl
    expect 0 "$@" --accumulate "$n" --save one.safetensors --log one.jsonl
    ranks "$n" 0 "$@" --save ranks.safetensors --log ranks.jsonl --json
    cmp one.safetensors ranks.safetensors || fail "$n ranks: other weights: $*"
    losses one.jsonl > one.txt
    losses ranks.jsonl > ranks.txt
    [ -s one.txt ] || fail "no losses: $*"
    cmp one.txt ranks.txt || fail "$n ranks: other losses: $*: $(diff one.txt ranks.txt)"
    [ "$(member ranks)" -eq "$n" ] || fail "the result does not say $n ranks: $out"
    [ $(($(member anonymous_growth_bytes) + $(member kernel_bytes))) -le "$(member budget_bytes)" ] ||
        fail "a rank grew beyond the budget: $out"
}

small="--data synthetic --input-shape 16,16,3 --batch 4 --samples 64 -j 1 --costs flops"
# Batch norm and dropout, at 76 % of the peak.
norm="--data synthetic --input-shape 64,64,3 --batch 16 --samples 150 -j 1 --costs flops --time-limit 5 --budget 76%"
same 2 train test $small --steps 9
same 3 train test $small --steps 6 --optimizer adamw --weight-decay 0.01 --fused
same 2 train MobileNet $norm --steps 3 --optimizer adam
grep -q '"overhead": 0[,}]' out.txt && fail "the budget asked for no rematerialization: $out"
same 3 train MobileNet $norm --steps 4 --fused

# Steps of several batches are not those of one: what is compared above can differ.
expect 0 train test $small --steps 9 --save single.safetensors
expect 0 train test $small --steps 9 --accumulate 2 --save one.safetensors
cmp -s one.safetensors single.safetensors && fail "--accumulate has no effect"

# Going on: as many ranks, or one process with as many batches a step. Another number is refused.
ranks 2 0 train test $small --steps 5 --save part.safetensors
cp part.safetensors for_one.safetensors
cp part.safetensors other.safetensors
ranks 2 0 train test $small --steps 9 --resume part.safetensors --save part.safetensors
cmp part.safetensors one.safetensors || fail "two ranks go on differently"
expect 0 train test $small --steps 9 --accumulate 2 --resume for_one.safetensors --save for_one.safetensors
cmp for_one.safetensors one.safetensors || fail "one process goes on differently from two"
ranks 3 bad train test $small --steps 9 --resume other.safetensors
said_once 'batches=2'
expect 1 train test $small --steps 9 --resume other.safetensors
err_has 'as many batches a step'

# One error for all, and an end: an epoch with too few batches, a budget that cannot be, wrong usage, a log that only rank 0
# opens, data that one rank lacks.
ranks 3 bad train test $small --samples 8 --steps 2
said_once 'a step takes 3 batches, and an epoch of the data has only 2'
ranks 2 3 train test $small --budget 1kB --steps 2
said_once 'no schedule fits'
ranks 2 2 train test $small --accumulate 2 --steps 2
said_once 'leave out --accumulate'
ranks 2 2 train test $small --check
said_once 'start them without mpirun'
ranks 2 bad train test $small --steps 2 --log no/such/folder/log.jsonl
said_once 'no/such/folder/log.jsonl'
cat > differs.sh << 'END'
#!/bin/sh
# As rank 1, with other arguments.
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
    exec "$CHECKMATE" "$@" $RANK_1
fi
exec "$CHECKMATE" "$@" $RANK_0
END
chmod +x differs.sh
# differs RANK_0 RANK_1: arguments of theirs alone.
differs() {
    RANK_0=$1 RANK_1=$2 CHECKMATE=$CHECKMATE timeout 100 mpirun --allow-run-as-root --oversubscribe -n 2 ./differs.sh \
        train test --input-shape 16,16,3 --batch 4 -j 1 --costs flops --steps 50 > out.txt 2> err.txt < /dev/null
    status=$?
    err=$(cat err.txt)
    [ "$status" -ne 124 ] || fail "ranks with '$1' and '$2': hangs"
    [ "$status" -ne 0 ] || fail "ranks with '$1' and '$2': exit status 0"
}
differs '--data synthetic --samples 64' '--data no_such_folder'
said_once 'rank 1: '
err_has 'no_such_folder'
differs '--data synthetic --samples 64' '--data synthetic --samples 65'
said_once 'rank 1 has another network, data or budget than rank 0'
differs '--data synthetic --samples 64' '--data synthetic --samples 64 --weights no_such_file'
said_once 'rank 1: no_such_file'

# Killed: the job ends, the file saved last is good, and training continues from it bit for bit.
rm -f ./*.safetensors
timeout 200 mpirun --allow-run-as-root --oversubscribe -n 2 sh -c \
    'echo $$ > pid.$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$CHECKMATE" train test $small --steps 1000000 \
    --save killed.safetensors --save-every 3 > out.txt 2> err.txt < /dev/null &
job=$!
i=0
while [ ! -s killed.safetensors ] && [ $i -lt 600 ]; do
    sleep 0.1
    i=$((i + 1))
done
kill -s KILL "$(cat pid.1)"
i=0
while kill -s 0 "$job" 2> /dev/null && [ $i -lt 200 ]; do
    sleep 0.1
    i=$((i + 1))
done
[ $i -lt 200 ] || fail "20 s after a rank was killed the job still runs"
wait "$job"
[ $? -ne 0 ] || fail "a rank was killed, and the exit status is 0"
[ "$(grep -c 'on signal 9 (Killed)' err.txt)" -eq 1 ] || fail "that a rank was killed is not said once: $(cat err.txt)"
# A zombie that has not been waited for counts as gone.
grep -q '^State:.*[RSDT] (' "/proc/$(cat pid.0)/status" 2> /dev/null && fail "rank 0 is still there"
at=$(head -c 4096 killed.safetensors | sed -n 's/.*"step":"\([0-9]*\)".*/\1/p')
[ -n "$at" ] || fail "the file saved last does not say its step"
ranks 2 0 train test $small --steps $((at + 3)) --resume killed.safetensors --save killed.safetensors
expect 0 train test $small --steps $((at + 3)) --accumulate 2 --save straight.safetensors
cmp killed.safetensors straight.safetensors || fail "after a rank was killed at step $at training continues differently"
finish
