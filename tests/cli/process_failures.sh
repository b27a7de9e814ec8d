# SPDX-License-Identifier: Apache-2.0
# Processes and threads that cannot be started: the program continues without them, and says so.
. "$(dirname "$0")/lib.sh"

[ -x "${CKM_FAULT_SWEEP:-}" ] || skip "the tool that makes forks and threads fail is not built with sanitizers or for coverage"
GOMP_SPINCOUNT=1000
OMP_STACKSIZE=512k
XDG_CACHE_HOME=$work/cache
export GOMP_SPINCOUNT OMP_STACKSIZE XDG_CACHE_HOME
mkdir cache
"$CHECKMATE" graph VGG16 --batch 64 --granularity layer -o vgg.json || fail "cannot build the graph"

# tool OPTIONS... -- ARGUMENTS...
tool() {
    options=''
    while [ "$1" != -- ]; do
        options="$options '$1'"
        shift
    done
    shift
    report=$(eval "\"\$CKM_FAULT_SWEEP\" $options -- \"\$CHECKMATE\" \"\$@\"")
    status=$?
    printf '%s: %s\n' "$*" "$(printf '%s\n' "$report" | tail -n 1)"
    [ "$status" -eq 0 ] || fail "$* ($options): $report"
}

# One that auto does not prove before it starts a process.
"$CHECKMATE" graph MobileNet --batch 8 -o mobilenet.json || fail "cannot build the graph"

# No process can be started: strategies that find schedules themselves still do, the others find none.
for strategy in auto ilp stage-program; do
    graph=vgg.json budget=90%
    [ $strategy != auto ] || { graph=mobilenet.json budget=40%; }
    "$CKM_FAULT_SWEEP" --kind fork --at 0 --from-then --lines 9 --succeeds --check "$CHECKMATE verify $graph out.json" \
        --product out.json -- "$CHECKMATE" solve $graph --budget $budget --strategy $strategy --time-limit 2 -o out.json \
        > report.txt || fail "$strategy without a process: $(cat report.txt)"
    grep -q 'warning: cannot start a process for the engine: Resource temporarily unavailable' report.txt ||
        fail "$strategy does not say that it had to do without: $(cat report.txt)"
done
# These end by themselves, after a second or so; on a slow machine a limit of two would come before.
for strategy in lp-bound lp-round stage-bound lp-random; do
    run solve vgg.json --budget 90% --strategy $strategy --time-limit 60
    tool --kind fork --at 0 --from-then --status "$status" --accept 4 --lines 9 --check true -- solve vgg.json --budget 90% --strategy $strategy --time-limit 60
done
# Only the Nth: the search continues with the next.
tool --kind fork --runs 4 --succeeds --check "$CHECKMATE verify mobilenet.json out.json" --product out.json -- \
    solve mobilenet.json --budget 40% --time-limit 2 -o out.json
tool --kind map --runs 8 --accept 4 --check "$CHECKMATE verify vgg.json out.json" --product out.json -- \
    solve vgg.json --budget 90% --time-limit 1 --strategy ilp -o out.json

# The same by the system's own limit, which does not bind root.
somebody=''
if [ "$(id -u)" -eq 0 ]; then
    somebody='setpriv --reuid=65534 --regid=65534 --clear-groups'
    chmod 755 "$work"
    chmod 644 vgg.json
fi
if prlimit --nproc=0 $somebody "$CHECKMATE" --version > /dev/null 2>&1; then
    # shellcheck disable=SC2086 # the words are arguments
    prlimit --nproc=0 $somebody "$CHECKMATE" solve vgg.json --budget 90% --strategy ilp --time-limit 2 > out.txt 2> err.txt
    status=$?
    err=$(cat err.txt)
    [ "$status" -eq 0 ] || fail "ilp with no process allowed: exit status $status: $err"
    err_has 'warning: cannot start a process for the engine'
else
    echo "note: cannot limit the number of processes for another user than root; that part is left out" >&2
fi

# Threads. With room for N of them training continues with fewer, and never fails.
small="--input-shape 8,8,3 --batch 4 -j 4"
tool --kind thread --alive --succeeds --lines 40 --check true -- train test --data synthetic --samples 16 --steps 2 $small \
    --costs flops --budget 64MB
tool --kind thread --alive --succeeds --lines 40 --check true --runs 40 -- profile test $small --steps 3 -o out.json
"$CKM_FAULT_SWEEP" --kind thread --at 4 --alive --succeeds --lines 40 --check true -- "$CHECKMATE" train test --data synthetic \
    --samples 16 --steps 2 $small --costs flops --budget 64MB > report.txt || fail "four threads besides the first: $(cat report.txt)"
grep -q 'warning: only 2 of 4 threads could be started' report.txt || fail "four threads besides the first: $(cat report.txt)"
# No thread at all: the same losses as with one.
expect 0 train test --data synthetic --samples 16 --steps 3 $small -j 1 --costs flops --budget 64MB --save one.safetensors
"$CKM_FAULT_SWEEP" --kind thread --at 0 --from-then --succeeds --lines 40 --check "cmp one.safetensors none.safetensors" \
    --product none.safetensors -- "$CHECKMATE" train test --data synthetic --samples 16 --steps 3 $small --costs flops \
    --budget 64MB --save none.safetensors > report.txt || fail "no thread: $(cat report.txt)"
grep -q 'none read ahead' report.txt || fail "no thread to read ahead: $(cat report.txt)"
tool --kind thread --at 0 --from-then --succeeds --check "$CHECKMATE verify vgg.json out.json" --product out.json -- \
    solve vgg.json --budget 90% --strategy local-search -j 3 --time-limit 1 -o out.json
finish
