# SPDX-License-Identifier: Apache-2.0
# Costs near 2^63: schedules whose cost no number holds are dropped, and those that fit are found.
. "$(dirname "$0")/lib.sh"

# The first operator takes nearly all that 63 bits hold, so that no schedule may run it twice; the others cost 1.
sed '0,/"cost": 1/s//"cost": 9223372036854775700/' "$data/unit_chain8.json" > huge.json
for strategy in auto local-search chain dtr chen-sqrt lp-round; do
    for budget in 5 6 7 8; do
        run solve huge.json --budget $budget --strategy $strategy --time-limit 0.3 -o huge-$budget.schedule
        case $status in
        0) "$CHECKMATE" verify huge.json huge-$budget.schedule > out.txt 2> err.txt || fail "$strategy, $budget: $(cat err.txt)" ;;
        4) ;;
        *) fail "$strategy within $budget: exit status $status: $err" ;;
        esac
    done
done
# What one strategy finds, the default has, too.
for budget in 5 6 7 8; do
    [ -f huge-$budget.schedule ] || continue
    expect 0 solve huge.json --budget $budget --time-limit 0.5
done
ls huge-*.schedule > found.txt 2> err.txt || fail "no schedule was found"
expect 0 sweep huge.json --budgets 3 --strategies auto,local-search --time-limit 0.3
[ "$(wc -l < out.txt)" -eq 7 ] || fail "sweep: $out"
expect 0 solve huge.json --budget min --time-limit 1
# What costs more than that cannot be planned at all.
sed '0,/"cost": 1/s//"cost": 9223372036854775807/' "$data/unit_chain8.json" > larger.json
expect 1 solve larger.json --budget 7
err_has 'the sum of all costs exceeds 63 bits; give costs in a larger unit'
finish
