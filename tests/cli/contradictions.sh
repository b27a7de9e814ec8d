# SPDX-License-Identifier: Apache-2.0
# Every reader refuses a schedule file that contradicts itself or its graph: other programs read its figures and not the steps.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
expect 0 solve graph.json --budget 7 --strategy chain -o good.schedule
for command in "verify graph.json good.schedule" "explain graph.json good.schedule" "report graph.json good.schedule -o page.html"; do
    # shellcheck disable=SC2086
    expect 0 $command
done
# refused WHAT SED: after this change of the file, every reader says so.
refused() {
    sed "$2" good.schedule > bad.schedule
    cmp -s good.schedule bad.schedule && fail "'$2' changes nothing: $(head -n 4 good.schedule)"
    for command in "verify graph.json bad.schedule" "explain graph.json bad.schedule" \
        "report graph.json bad.schedule -o bad.html" "explain bad.schedule"; do
        # shellcheck disable=SC2086
        expect 1 $command
        one_error=$(tail -n 1 err.txt)
        case $one_error in
        *"$1"*) ;;
        *) [ "$command" = "explain bad.schedule" ] || fail "$command after $2: $one_error" ;;
        esac
    done
}
refused 'a bound of 1000000000 that no schedule can cost less than' 's/"bound_cost": [0-9.e+]*/"bound_cost": 1e9/'
refused 'the file says "optimal", but' 's/"status": "[a-z]*"/"status": "optimal"/; s/"bound_cost": [0-9.e+]*/"bound_cost": 17/'
refused 'the file states a baseline_cost of 0' 's/"baseline_cost": [0-9]*/"baseline_cost": 0/'
refused '1000' 's/"baseline_cost": [0-9]*/"baseline_cost": 1000/'
refused 'budget' 's/"budget_bytes": [0-9]*/"budget_bytes": 1/'
refused 'bound_cost: must be a number of at least 0, or null' 's/"bound_cost": [0-9.e+]*/"bound_cost": -1e308/'
refused 'seconds: must be a number of at least 0, or null' 's/"seconds": [0-9.e+-]*/"seconds": -1/'
finish
