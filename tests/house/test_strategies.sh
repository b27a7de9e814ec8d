#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A strategy is a file, a line and a test: the list, the records and the tests belong together, and no code compares
# names of strategies. A component is a record and a line.
set -eu
bad=0
complain() {
    echo "$*"
    bad=1
}

# check ROOT: complains about the tree below ROOT.
check() {
    cd "$1"
    folder=src/solve/strategies
    listed=$(sed -n 's/^ *STRATEGY(\([a-z0-9_]*\)).*/\1/p' $folder/solve_registry.h)
    [ -n "$listed" ] || complain "$folder/solve_registry.h lists nothing"
    for symbol in $listed; do
        name=$(echo "$symbol" | tr _ -)
        record=$(grep -l "^const ckm_i_strategy ckm_i_strategy_$symbol = {" $folder/solve_*.c) || true
        [ "$(echo "$record" | wc -w)" -eq 1 ] || { complain "$symbol is listed, and its record is in '$record'"; continue; }
        grep -q "\.name = \"$name\"," "$record" || complain "$record: no record is called \"$name\""
        # One of several in a file is tested under its own name all the same; local-search is local there for short.
        test=tests/unit/solve/test_solve_$symbol.c
        [ -e "$test" ] || complain "$name has no test $test"
        grep -qs "strategy_check_random(\"$name\"" "$test" || complain "$test does not hold $name against brute force"
        grep -qs "strategy_check_edges(\"$name\"" "$test" || complain "$test does not try the edges of $name"
    done
    for symbol in $(sed -n 's/^const ckm_i_strategy ckm_i_strategy_\([a-z0-9_]*\) = {.*/\1/p' $folder/solve_*.c); do
        echo "$listed" | grep -qx "$symbol" || complain "$symbol has a record and is not in $folder/solve_registry.h"
    done
    # A component that is not listed would be counted as the last one that is.
    parts=$(sed -n 's/^ *COMPONENT(\([a-z0-9_]*\)).*/\1/p' src/solve/core/component_registry.h)
    [ -n "$parts" ] || complain "src/solve/core/component_registry.h lists nothing"
    for symbol in $(grep -rhoE '^const ckm_i_component ckm_i_component_[a-z0-9_]+' src/solve --include='*.c' | sed 's/.*_component_//'); do
        echo "$parts" | grep -qx "$symbol" || complain "component $symbol has a record and is not in src/solve/core/component_registry.h"
    done
    for symbol in $parts; do
        name=$(echo "$symbol" | tr _ -)
        record=$(grep -rl "^const ckm_i_component ckm_i_component_$symbol = {" src/solve --include='*.c') || true
        [ "$(echo "$record" | wc -w)" -eq 1 ] || { complain "component $symbol is listed, and its record is in '$record'"; continue; }
        grep -A1 "^const ckm_i_component ckm_i_component_$symbol = {" "$record" | grep -q "\"$name\"," ||
            complain "$record: component $symbol is not called \"$name\""
    done
    # Traits are fields of the record.
    names=$(echo "$listed" | tr _ - | grep -vx auto | paste -sd '|' -)
    found=$(
        grep -rnE "strn?cmp\(.*\"($names)" src --include='*.[ch]'
        grep -rnE 'strn?cmp\(.*("auto"|strateg[a-z]*(\[i\])?->name)' src/solve --include='*.[ch]' |
            grep -v '^src/solve/strategies/solve_registry.c:'
        grep -rnE '"(chen|checkpoint|lp|stage)-"' src --include='*.[ch]'
        true
    )
    [ -z "$found" ] || complain "a strategy is asked by its name, not by a field of its record:
$found"
    found=$(grep -rnE 'ckm_i_strategy_find\("' src --include='*.[ch]') || true
    [ -z "$found" ] || complain "name the record, not its name: $found"
}

(check "$CKM_SOURCE_DIR" && exit $bad) || exit 1

# The check fails on a planted one of each kind.
work=$(mktemp -d "${TMPDIR:-/tmp}/checkmate-strategies.XXXXXX")
trap 'rm -rf "$work"' EXIT
plant() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/tests/unit"
    cp -r "$CKM_SOURCE_DIR/src" "$CKM_SOURCE_DIR/include" "$work/tree/"
    cp -r "$CKM_SOURCE_DIR/tests/unit/solve" "$work/tree/tests/unit/"
    cp -r "$CKM_SOURCE_DIR/tests/support" "$CKM_SOURCE_DIR/tests/oracle" "$CKM_SOURCE_DIR/tests/golden" "$work/tree/tests/"
    (cd "$work/tree" && eval "$2")
    if (check "$work/tree" && exit $bad) >"$work/out"; then
        complain "not noticed: $1"
    fi
}
plant "a strategy without a test" 'rm tests/unit/solve/test_solve_griewank.c'
plant "a test without brute force" 'sed -i s/strategy_check_random/other/ tests/unit/solve/test_solve_ilp.c'
plant "a record that is not listed" 'sed -i "/STRATEGY(chen_sqrt_ap)/d" src/solve/strategies/solve_registry.h'
plant "a component that is not listed" 'sed -i "/COMPONENT(runs)/d" src/solve/core/component_registry.h'
plant "a component called otherwise" 'sed -i "s/[.]name = \"leave-out-singly\"/.name = \"singly\"/" src/solve/runs/leave_out.c'
plant "a name compared" 'echo "static int f(const ckm_i_strategy *s) { return strcmp(s->name, \"griewank\"); }" >>src/solve/quick.c'
[ $bad -eq 0 ] && echo "strategies, components, tests and the lists belong together"
exit $bad
