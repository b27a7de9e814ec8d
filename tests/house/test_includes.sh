#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tree follows the include rule, and the check notices each way of breaking it.
set -eu
check="$CKM_SOURCE_DIR/scripts/check_includes.sh"
sh "$check" "$CKM_SOURCE_DIR" || { echo "the include rule is broken, see above" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# plant FILE LINE EXPECTED: a tree that is clean but for one line must fail with that message.
plant() {
    rm -rf "$scratch/src" "$scratch/include"
    mkdir -p "$scratch/include/checkmate" "$scratch/src/base" "$scratch/src/solve" "$scratch/src/cli" \
        "$scratch/src/schedule" "$scratch/src/graph" "$scratch/src/milp"
    echo '#include <stdint.h>' >"$scratch/include/checkmate/base.h"
    printf '#include "solve/core/solver.h"\n#include "base/error.h"\n#include <checkmate/max_batch.h>\n' \
        >"$scratch/src/solve/solve.c"
    printf '#include <checkmate/checkmate.h>\n#include "cli/cli.h"\n' >"$scratch/src/cli/main.c"
    printf '#include <coin/Cbc_C_Interface.h>\n' >"$scratch/src/milp/milp_cbc.c"
    sh "$check" "$scratch" >"$scratch/out" || { echo "a clean tree fails:"; cat "$scratch/out"; exit 1; }
    mkdir -p "$(dirname "$scratch/$1")"
    printf '%s\n' "$2" >>"$scratch/$1"
    if sh "$check" "$scratch" >"$scratch/out"; then
        echo "not noticed: $2 in $1"
        exit 1
    fi
    grep -q -- "$3" "$scratch/out" || { echo "unexpected message for $2 in $1:"; cat "$scratch/out"; exit 1; }
}

plant src/solve/solve.c '#include "graph/graph.h"' 'solve must not include graph'
plant src/solve/solve.c '#include <checkmate/graph.h>' 'solve must not include graph'
plant src/schedule/schedule.c '#  include "solve/core/solver.h"' 'schedule must not include solve'
plant src/schedule/schedule.c '#include <checkmate/max_batch.h>' 'schedule must not include solve'
plant src/base/error.c '#include "graph/graph.h"' 'base must not include graph'
plant src/base/error.c '#include "graph/graph.h"' 'cycle'
plant src/base/error.c '#include <checkmate/checkmate.h>' 'must not include <checkmate/checkmate.h>'
plant src/cli/main.c '#include "base/error.h"' 'only include public headers'
plant src/solve/solve.c '#include "solver.h"' 'named from src/'
plant src/solve/core/solver.c '#include "solve/search/search_state.h"' 'solve/core must not include'
plant src/solve/search/search_state.c '#include "solve/solve_above.h"' 'solve/search must not include'
plant src/solve/tricks/tricks.c '#include "solve/core/solver.h"' 'part tricks of solve is not in the table'
plant src/solve/solve.c '#include <coin/Clp_C_Interface.h>' 'only be included by milp'
plant include/checkmate/solve.h '#include "solve/core/solver.h"' 'public header must not include'
plant include/checkmate/schedule.h '#include <checkmate/graph.h>' 'schedule must not include graph'
plant src/extra/extra.c '#include "base/error.h"' 'not in the table'
plant src/ops/conv/op_conv.c '#include "run/backend/backend.h"' 'other side of an operator'
plant src/ops/conv/op_conv.c '#include "ops/conv/ref_conv.h"' 'other side of an operator'
plant src/ops/conv/dnnl_conv.c '#include "autodiff/grad_rules.h"' 'other side of an operator'
plant src/ops/conv/cpu_conv.c '#include "solve/core/solver.h"' 'other side of an operator'
plant src/ops/conv/op_conv.c '#include <oneapi/dnnl/dnnl.h>' 'only be included by run/cpu, ops'
plant src/ops/conv/cpu_conv.c '#include "run/session/session.h"' 'a kernel must not include'
plant src/run/session/session.c '#include <png.h>' 'only be included by run/data'
plant src/run/session/session.c '#include "run/data/data.h"' 'run/session must not include'
plant src/run/backend/host_memory.c '#include "run/cpu/cpu_threads.h"' 'run/backend must not include'
plant src/run/cpu/cpu_conv.c '#include "run/session/session.h"' 'run/cpu must not include'
plant src/run/session/session.c '#include <run/train/train.h>' 'from src/, not <'
plant src/run/session/session.c '#include <src/run/train/train.h>' 'from src/, not <'
plant src/run/session/session.c '#include "run/session/../train/train.h"' 'without dots'
plant src/run/session/session.c '# /* x */ include "run/train/train.h"' 'write #include'
plant src/run/data/data.c '#include "run/session/session.h"' 'run/data must not include'
plant src/ops/conv/fast_conv.c '#include "base/error.h"' 'a file of ops begins with'
plant src/run/session/session.c '#include "ops/conv/op_conv.h"' 'run must not include ops'
echo "include rule: the tree is clean, 33 planted violations were noticed"
