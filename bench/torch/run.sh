#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares ways to train a PyTorch model in less memory; see README.md.
# Usage: bench/torch/run.sh [options of compare.py]     measures, then writes the table and the figures
#        bench/torch/run.sh --inductor [options]        the same of generated code: results/torch-inductor.*
#        bench/torch/run.sh --library [options]         models of transformers and diffusers: results/torch-library.*
#        bench/torch/run.sh --table                     writes them from what was measured
#        bench/torch/run.sh --planning [options of planning.py]
#        bench/torch/run.sh --first-step [options of first_step.py]   the first step, with and without what was kept; docs/PYTORCH.md
#        bench/torch/run.sh --offload [options of offload.py]   activations in a file: autograd's hooks, and ours at their peaks
#        bench/torch/run.sh --small [options of small.py]   steps of some milliseconds
#        bench/torch/run.sh --peaks [options of peaks.py]   small networks: planned and measured peaks
#        bench/torch/run.sh --device [options of device.py]   plans Llama 3.1 8B for a GPU that is not present
#        bench/torch/run.sh --zoo [options of zoo_budgets.py]   models of other libraries within budgets
#        bench/torch/run.sh --outcomes [options of outcomes.py]   models and training loops: bit for bit, within the budget, refused; docs/PYTORCH.md
#        bench/torch/run.sh --processes [options]   --ddp, --sharded, --pipeline and what they have with --close, one after the other
#        bench/torch/run.sh --pipeline [options of pipeline.py]   a pipeline of two processes: results/torch-pipeline.*
#        bench/torch/run.sh --sharded [options of sharded.py]   FSDP2 and tensor parallelism: results/torch-sharded*.*
#        bench/torch/run.sh --parallel [options of parallel.py]   layouts over devices that are not present: results/torch-parallel.md
#        bench/torch/run.sh --ddp [options of ddp.py]   DistributedDataParallel with accumulation: results/torch-ddp.*
# CHECKMATE_LIBRARY: the library (default: that of build/); CKM_TORCH_PYTHON: a python with torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

. "$root/bench/python.sh"
find_python torch PyTorch CKM_TORCH_PYTHON
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMP_WAIT_POLICY
name=torch
if [ "${1:-} ${2:-}" = "--inductor --library" ]; then
    name=torch-library-inductor
    shift 2
    set -- --methods eager,inductor --library --within --repeats 1 --threads 1,2 --jobs 2 --rounds 15 --seconds 6 "$@"
elif [ "${1:-}" = --inductor ]; then
    name=torch-inductor
    shift
    set -- --methods eager,inductor "$@"
elif [ "${1:-}" = --library ]; then
    name=torch-library
    shift
    set -- --library --within --methods eager,checkpoint,selective,budget --repeats 1 --threads 1,2 --jobs 2 --rounds 15 --seconds 6 "$@"
fi
results=$root/bench/results
case ${1:-} in
--planning)
    shift
    exec "$python" "$here/planning.py" "$@"
    ;;
--first-step)
    shift
    exec "$python" "$here/first_step.py" --page "$root/docs/PYTORCH.md" "$@"
    ;;
--small)
    shift
    exec "$python" "$here/small.py" "$@"
    ;;
--offload)
    shift
    exec "$python" "$here/offload.py" "$@"
    ;;
--peaks)
    shift
    exec "$python" "$here/peaks.py" "$@"
    ;;
--outcomes)
    shift
    exec "$python" "$here/outcomes.py" --page "$root/docs/PYTORCH.md" "$@"
    ;;
--device)
    shift
    exec "$python" "$here/device.py" "$@"
    ;;
--zoo)
    shift
    exec "$python" "$here/zoo_budgets.py" "$@"
    ;;
--processes)
    shift
    failed=0
    for part in --ddp --sharded "--sharded --close --ranks 2 --seconds 3" --pipeline "--pipeline --close"; do
        seconds=
        case $part in --pipeline*) seconds="--seconds 1" ;; esac
        sh "$here/run.sh" $part $seconds "$@" || failed=1
    done
    exit $failed
    ;;
--ddp)
    shift
    exec "$python" "$here/ddp.py" --records "$results/torch-ddp.jsonl" --table "$results/torch-ddp.md" "$@"
    ;;
--sharded)
    shift
    case " $* " in *" --close "*) name=torch-sharded-close ;; *) name=torch-sharded ;; esac
    exec "$python" "$here/sharded.py" --records "$results/$name.jsonl" --table "$results/$name.md" "$@"
    ;;
--parallel)
    shift
    exec "$python" "$here/parallel.py" --table "$results/torch-parallel.md" "$@"
    ;;
--pipeline)
    shift
    case " $* " in *" --close "*) name=torch-pipeline-close ;; *) name=torch-pipeline ;; esac
    exec "$python" "$here/pipeline.py" --records "$results/$name.jsonl" --table "$results/$name.md" "$@"
    ;;
-h | --help)
    sed -n '3,20s/^# \{0,1\}//p' "$0"
    exec "$python" "$here/compare.py" --help
    ;;
--table) ;;
*)
    "$python" "$here/compare.py" --records "$results/$name.csv" "$@"
    ;;
esac
for csv in "$results"/torch.csv "$results"/torch-inductor.csv "$results"/torch-library*.csv; do
    [ ! -e "$csv" ] || "$python" "$here/table.py" "$csv" "${csv%.csv}.md" "$root/docs/figures"
done
