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
# The reason for finding none is reported.
expect 4 solve huge.json --budget 4 --time-limit 0.3
err_has '; proven: what fits and keeps the graph'\''s order costs more than 63 bits hold: give costs in a larger unit'
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
# Times of a device model with a launch of months: up to 63 bits they are planned with, beyond them refused.
cat > slow.json <<'EOF'
{"format": "checkmate-device", "version": 1, "name": "slow",
  "macs_per_s": 7.85e12, "matrix_macs_per_s": 7.85e12, "bytes_per_s": 9e11, "launch_ns": 1e16,
  "efficiency": {"conv3": 1.25, "matrix": 0.6, "grouped": 0.1, "stream": 0.83}}
EOF
sed 's/1e16/2e17/' slow.json > slower.json
sed 's/1e16/1e18/' slow.json > slowest.json
sed 's/1e16/1e300/' slow.json > never.json
for device in slow slower; do
    expect 0 graph linear5 --costs "device:$device.json" -o "$device-graph.json"
    expect 0 solve linear5 --costs "device:$device.json" --budget 75% --time-limit 0.5 -o "$device-schedule.json"
    expect 0 verify "$device-graph.json" "$device-schedule.json"
    expect 0 solve linear5 --costs "device:$device.json" --budget min --time-limit 0.5
done
expect 1 solve linear5 --costs device:slowest.json --budget 75%
one_error_line
err_has 'the cost of all operators up to it does not fit 63 bits; use a smaller batch'
expect 1 solve linear5 --costs device:never.json --budget 75%
one_error_line
err_has 'its time on "slow" does not fit 63 bits'
finish
