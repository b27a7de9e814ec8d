# SPDX-License-Identifier: Apache-2.0
# Wrong usage: exit status 2, one line that says what is wrong and where to read on.
. "$(dirname "$0")/lib.sh"

wrong() {
    expect 2 "$@"
    one_error_line
    [ -z "$out" ] || fail "wrong usage prints to standard output: $*"
}

graph=unit_chain8.json
cp "$data/$graph" .

wrong solv
wrong frobnicate
wrong --nonsense
wrong help solvee
wrong solve
wrong solve $graph
wrong solve $graph extra --budget 5
wrong solve $graph --budget
wrong solve $graph --budget=
wrong solve $graph --budget 5GX
wrong solve $graph --budget -5
wrong solve $graph --budget 5.5
wrong solve $graph --budget 99999999TB
wrong solve $graph --budget 0x10
wrong solve $graph --budget inf
wrong solve $graph --bugdet 5
wrong solve $graph --budget 5 --time 3
wrong solve $graph --budget 5 --strategy chekpoint-all
wrong solve $graph --budget 5 --strategy nothing-like-it
wrong solve $graph --budget 5 --time-limit -1
wrong solve $graph --budget 5 --time-limit soon
wrong solve $graph --budget 5 --gap x%
wrong solve $graph --budget 5 --threads 0
wrong solve $graph --budget 5 --threads 1.5
wrong solve $graph --budget 5 --seed 99999999999999999999
wrong solve $graph --budget 5 --formulation other
wrong solve $graph --budget 5 --json=yes
wrong solve $graph --budget 5 --json -o -
wrong solve $graph --budget 5 --batch 4
wrong solve $graph --budget 5 --costs profile.json
wrong solve linear8 --budget 5GB --batch 0
wrong solve linear8 --budget 5GB --input-shape 224,x,3
wrong solve linear8 --budget 5GB --input-shape 0,224,3
wrong solve linear8 --budget 5GB --granularity fine
wrong solve $graph --budget 5 --width 64
wrong solve GPT2 --budget 5GB --depth 0
wrong solve GPT2 --budget 5GB --sequence-length long
wrong verify $graph
wrong verify - -
wrong sweep
wrong sweep $graph --budgets 0
wrong sweep $graph --strategies checkpoint-all,,auto
wrong max-batch VGG16
wrong max-batch VGG16 --memory 60%
wrong max-batch VGG16 --memory 16GB --batch 8
wrong max-batch VGG16 --memory 16GB --compute-limit 0.5
wrong max-batch VGG16 --memory 16GB --accounting creative
wrong max-batch VGG16 --memory 16GB --accounting paper --granularity op
wrong max-batch VGG16 --memory 16GB --batch-step 0
wrong max-batch $graph --memory 16GB
wrong models extra
golden usage

# Without a command: the overview, on standard error.
expect 2
err_has "Commands"
[ -z "$out" ] || fail "the overview of wrong usage belongs on standard error"
finish
