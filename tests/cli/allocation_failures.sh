# SPDX-License-Identifier: Apache-2.0
# Every allocation that a command makes fails in turn: a clean error, or the right answer; see tests/faults.
# CKM_FAULT_RUNS is how many are tried of each command, evenly spread (0: every one, scripts/nightly_faults.sh).
# CKM_FAULT_SECONDS bounds the time for each (0: none).
. "$(dirname "$0")/lib.sh"

[ -x "${CKM_FAULT_SWEEP:-}" ] || skip "the tool that makes allocations fail is not built with sanitizers or for coverage"
most=${CKM_FAULT_RUNS:-250}
few=$((most > 100 ? 100 : most))  # 0 stays 0: all
seconds_each=${CKM_FAULT_SECONDS:-3}
# The program starts itself anew where this is not set, and would lose the tool.
GOMP_SPINCOUNT=1000
OMP_STACKSIZE=512k
XDG_CACHE_HOME=$work/cache
export GOMP_SPINCOUNT OMP_STACKSIZE XDG_CACHE_HOME
mkdir cache
ulimit -c 0

# sweep NAME OPTIONS... -- ARGUMENTS...: options of the tool, arguments of the program. $program ends with $wanted.
wanted=0
program=$CHECKMATE
sweep() {
    name=$1
    shift
    options=''
    while [ "$1" != -- ]; do
        options="$options '$1'"
        shift
    done
    shift
    report=$(eval "\"\$CKM_FAULT_SWEEP\" --status $wanted --seconds $seconds_each $options -- \"\$program\" \"\$@\"")
    status=$?
    case $report in
    # By the clock: a machine that is busy gets elsewhere than a moment ago.
    'fails undisturbed (status 0x400)'*)
        report=$(eval "\"\$CKM_FAULT_SWEEP\" --status 4 --seconds $seconds_each $options -- \"\$program\" \"\$@\"")
        status=$?
        ;;
    esac
    printf '%s: %s\n' "$name" "$(printf '%s\n' "$report" | tail -n 1)"
    [ "$status" -eq 0 ] || fail "$name: $report"
}

# What the clock and the machine decide: how long it took, and what is proven where the time did not do.
seconds='^seconds .*$|"seconds": [0-9.e+-]*|found no schedule within .*$|has no schedule that fits .*$'

cp "$data/unit_chain8.json" graph.json
expect 0 solve graph.json --budget 6 --strategy chain -o schedule.json
expect 0 graph VGG16 --batch 64 --granularity layer -o vgg.json

sweep "graph" --runs "$most" -- graph graph.json
sweep "graph of the zoo" --runs "$most" -- graph VGG16 --batch 4
sweep "graph -o" --runs "$most" --product out.json -- graph graph.json -o out.json
sweep "verify" --runs "$most" -- verify graph.json schedule.json
sweep "explain" --runs "$most" -- explain graph.json schedule.json
sweep "report" --runs "$most" --product out.html -- report graph.json schedule.json -o out.html
sweep "models" --runs "$few" --begins -- models
sweep "devices" -- devices
sweep "strategies" -- strategies

# A strategy that continues after a failed allocation must still give a valid schedule.
for strategy in $("$CHECKMATE" strategies | awk '/^[^ ]/ { print $1 }'); do
    # All but one end by themselves, within 0.3 s: a busy machine has time enough.
    limit=2
    [ "$strategy" != local-search ] || limit=0.3
    run solve graph.json --budget 6 --strategy "$strategy" --time-limit $limit
    wanted=$status
    for scope in parent child; do
        [ "$scope" = parent ] || grep -q "$strategy" <<forks || continue
ilp lp-bound lp-round lp-random stage-bound stage-program
forks
        # A process that dies may take the schedule with it.
        accept=-1
        check="$CHECKMATE verify graph.json out.json"
        [ "$wanted" -eq 0 ] || check=true
        [ "$scope" = parent ] || accept=4
        sweep "solve --strategy $strategy, $scope" --accept $accept --runs "$few" --scope $scope --mask "$seconds" --product out.json \
            --check "$check" -- solve graph.json --budget 6 --strategy "$strategy" --time-limit $limit -o out.json
    done
done
wanted=0
sweep "solve of VGG16" --runs "$few" --product out.json --mask "$seconds" --check "$CHECKMATE verify vgg.json out.json" -- \
    solve vgg.json --budget 90% --time-limit 0.5 -o out.json
# One that auto does not prove before it starts a process.
"$CHECKMATE" graph MobileNet --batch 8 -o mobilenet.json || fail "cannot build the graph"
sweep "solve of MobileNet, child" --scope child --runs "$few" --succeeds --product out.json \
    --check "$CHECKMATE verify mobilenet.json out.json" -- solve mobilenet.json --budget 40% --time-limit 1 -o out.json
sweep "solve --budget min" --runs "$few" --mask "$seconds" --check true -- solve graph.json --budget min --time-limit 0.5
sweep "solve --reorder" --runs "$few" --mask "$seconds" --check true -- solve graph.json --budget 6 --reorder --time-limit 0.3
sweep "sweep" --runs "$few" --begins --mask '[0-9]+[.][0-9]+$' -- sweep graph.json --budgets 3 --strategies chain,chen-sqrt
sweep "max-batch" --runs "$few" --mask "$seconds" --check true -- max-batch linear5 --input-shape 32,32,3 --memory 100MB \
    --strategy chen-sqrt --time-limit 0.5

# Training, with what oneDNN allocates for itself; the C interface without: the program has a reserve for it.
# Clocks, and memory as it is measured.
clock='"[a-z_]*seconds[a-z_]*": [0-9.e+-]*|"[a-z_]*growth_bytes": -?[0-9]*|"(used|outside|baseline|kernel|planning)_bytes": [0-9]*|"samples_per_second": [0-9.e+-]*|"[a-z_]*_ns": [0-9]*'
small="--input-shape 8,8,3 --batch 4 -j 1 --costs flops --budget 64MB"
sweep_training() {
    name=$1
    shift
    sweep "$name" --runs "$most" --lines 40 --mask "$clock" --leaves log.jsonl "$@"
}
sweep_training "train" --product out.safetensors -- train test --data synthetic --samples 16 --steps 2 $small --json \
    --log log.jsonl --save out.safetensors
expect 0 train test --data synthetic --samples 16 --steps 1 $small --save one.safetensors
sweep_training "train --resume" --product out.safetensors -- train test --data synthetic --samples 16 --steps 2 $small \
    --json --resume one.safetensors --export out.safetensors
sweep_training "train --check" --mask '[0-9.]* (m?s|seconds)' -- train test --data synthetic --samples 16 --steps 2 $small --check
printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 8, 8, 3), }" > x.npy
head -c 1536 /dev/zero >> x.npy
expect 0 train test --data synthetic --samples 16 --steps 1 $small --export weights.safetensors
sweep_training "run" --product y.npy -- run test --input-shape 8,8,3 -j 1 --budget 64MB --weights weights.safetensors \
    --input x.npy -o y.npy --json
sweep_training "export" --product out.onnx -- export test --input-shape 8,8,3 --weights weights.safetensors -o out.onnx
sweep_training "profile" --check true --product out.json -- profile test --input-shape 8,8,3 --batch 4 -j 1 --steps 3 -o out.json

# Memory that is exhausted stays so: all allocations from one on fail.
sweep "graph, none any more" --from-then --runs "$few" -- graph graph.json
sweep "explain, none any more" --from-then --runs "$few" -- explain graph.json schedule.json
sweep "solve, none any more" --from-then --runs "$few" --product out.json --mask "$seconds" \
    --check "$CHECKMATE verify graph.json out.json" -- solve graph.json --budget 6 --time-limit 0.3 -o out.json
# oneDNN ends the process when it has nothing left to throw an exception with.
sweep_training "train, none any more" --skip libdnnl, --from-then --product out.safetensors -- train test --data synthetic --samples 16 \
    --steps 2 $small --json --save out.safetensors

# The C interface: every function once.
mkdir tour
program=${CKM_API_TOUR:?}
sweep "C interface" --runs "$most" --skip libdnnl, -- tour
finish
