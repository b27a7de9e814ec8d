# SPDX-License-Identifier: Apache-2.0
# --json of the commands that list and explain: one object on one line, with the members that docs/FORMATS.md names.
. "$(dirname "$0")/lib.sh"

# Without a parser: keys at any depth, in order, each once.
keys() {
    [ "$(wc -l < out.txt)" -eq 1 ] || fail "$1: not one line"
    found=$(grep -o '"[a-z_0-9]*": ' out.txt | tr -d '": ' | awk '!seen[$0]++' | tr '\n' ' ')
    [ "$found" = "$2 " ] || fail "$1: members '$found', expected '$2'"
    # Brackets match.
    for pair in '{ }' '[ ]'; do
        [ "$(tr -cd "${pair% *}" < out.txt | wc -c)" -eq "$(tr -cd "${pair#* }" < out.txt | wc -c)" ] || fail "$1: brackets"
    done
}

expect 0 models --json
keys models 'networks name group input layers parameters other_values'
out_has '{"name": "VGG16", "group": '
[ "$(grep -o '"name"' out.txt | wc -l)" -gt 60 ] || fail "models --json leaves networks out"

expect 0 devices --json
keys devices 'devices name what source memory_bytes macs_per_s matrix_macs_per_s bytes_per_s launch_ns efficiency conv3 matrix grouped stream links out_bytes_per_second in_bytes_per_second latency_ns'
out_has '"name": "H100"'
out_has '"memory_bytes": 80000000000'

expect 0 strategies --json
keys strategies 'strategies name summary formulations accounting_paper'
expect 0 strategies --components --json
keys components 'components name summary'

graph='network batch layers parameters other_values operators forward loss backward update load tensors edges cost cost_unit fixed_bytes inputs input_bytes baseline_peak_bytes floor_bytes'
expect 0 graph linear8 --batch 4 -o graph.json --json
keys graph "$graph"
[ "$(member parameters) $(member batch) $(member cost_unit)" = "324776 4 flops" ] || fail "graph --json: $out"
peak=$(member baseline_peak_bytes)
# The file has no network any more, but the bytes of its parameters and data: 324,776 numbers, 4 images and what they show.
expect 0 graph graph.json --json
keys graph "$graph"
[ "$(member parameters)" = null ] || fail "parameters of a graph file: $out"
labels=$(($(member input_bytes) - 324776 * 4 - 4 * 224 * 224 * 3 * 4))
[ $labels -gt 0 ] && [ $labels -lt 1000 ] || fail "$labels bytes besides parameters and images: $out"
expect 0 graph graph.json
out_has 'in 12 tensors: parameters and data'
expect 2 graph graph.json -o - --json

expect 0 sweep graph.json --budgets '80%, 70%,H100,4G,4GB' --strategies chen-sqrt --json -o sweep.csv
keys sweep 'network operators baseline_cost rows budget_bytes strategy status cost overhead peak_bytes bound_cost bound_covers gap seconds'
budgets=$(grep -o '"budget_bytes": [0-9]*' out.txt | tr -dc '0-9\n' | tr '\n' ' ')
wanted="$((peak * 7 / 10)) $((peak * 8 / 10)) 4000000000 80000000000 "
[ "$budgets" = "$wanted" ] || fail "sweep --budgets: $budgets, expected $wanted"
[ "$(cut -d, -f3 sweep.csv | tail -n +2 | tr '\n' ' ')" = "$wanted" ] || fail "the table has other budgets: $(cat sweep.csv)"
expect 0 sweep graph.json --budgets min --strategies chen-sqrt --time-limit 1
[ "$(wc -l < out.txt)" -eq 2 ] || fail "sweep --budgets min: $out"
expect 2 sweep graph.json --budgets 80%,,4G
expect 2 sweep graph.json --budgets 0
expect 2 sweep graph.json --budgets 80%,some

expect 0 solve graph.json --budget 70% --strategy local-search --time-limit 2 -o schedule.json
# A heuristic that ended by itself says that it does not fit.
run solve graph.json --budget 70% --strategy chen-sqrt
[ "$status" = 4 ] || fail "chen-sqrt fits 70 %"
out_has 'does not fit'
err_has 'strategy chen-sqrt has no schedule that fits'
# explain takes what says which network it is.
expect 0 explain graph.json schedule.json --json
keys explain 'network operators strategy optimal budget_bytes peak_bytes baseline_peak_bytes cost baseline_cost cost_unit overhead peak_operator standing_bytes kept name operator module bytes class recomputed freed_bytes for held_bytes live_at_peak'
[ "$(member baseline_peak_bytes)" = "$peak" ] || fail "explain --json: $out"
expect 0 graph GPT2 --sequence-length 16 --width 32 --depth 2 --heads 2 --vocabulary 64 -o gpt.json
expect 0 solve gpt.json --budget 100% --strategy checkpoint-all -o gpt-schedule.json
expect 0 explain GPT2 --sequence-length 16 --width 32 --depth 2 --heads 2 --vocabulary 64 gpt-schedule.json
expect 0 report GPT2 --sequence-length 16 --width 32 --depth 2 --heads 2 --vocabulary 64 gpt-schedule.json -o page.html
finish
