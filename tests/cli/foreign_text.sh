# SPDX-License-Identifier: Apache-2.0
# Names from files are shown as text: no escapes, no line breaks, no formulas.
. "$(dirname "$0")/lib.sh"

escape=$(printf '\033')
# clean: the last run printed no control character, and nothing that the file made up.
clean() {
    LC_ALL=C grep -q "[$(printf '\001')-$(printf '\010')$(printf '\013')-$(printf '\037')$(printf '\177')]" out.txt err.txt &&
        fail "$*: control characters: $(cat -v out.txt err.txt)"
    LC_ALL=C grep -q "$(printf '\302\233')\|$(printf '\342\200\256')" out.txt err.txt && fail "$*: C1 or bidi characters"
    LC_ALL=C grep -q '^overhead  *0.0 %\|^forged' out.txt err.txt && fail "$*: a forged line: $(cat -v out.txt err.txt)"
    LC_ALL=C grep -q forged out.txt err.txt || fail "$*: the name is not shown at all: $(cat out.txt err.txt)"
}
bad='\\u001b[2K\\rx\\nforged overhead\\noverhead                0.0 %\\u009b31m\\u202e'
sed "s/unit-chain-8/$bad/; s/\"name\": \"layer1\"/\"name\": \"forged $bad\"/" "$data/unit_chain8.json" > graph.json
expect 0 solve graph.json --budget 7 --strategy chain -o schedule.json
expect 0 solve graph.json --budget 7 --strategy chain
clean solve
expect 0 graph graph.json
clean graph
expect 0 explain graph.json schedule.json
clean explain
sed "s/\"strategy\": \"[a-z-]*\"/\"strategy\": \"forged $bad\"/" schedule.json > named.json
expect 0 explain graph.json named.json
clean explain, strategy
expect 0 sweep graph.json --budgets 2 --strategies chain
clean sweep
sed "s/\"cost_unit\": \"flops\"/\"cost_unit\": \"forged $bad\"/" "$data/unit_chain8.json" > unit.json
expect 1 graph unit.json
clean cost_unit
one_error_line
expect 1 graph "forged${escape}[31m$(printf 'x\nforged').json"
clean a file name
one_error_line
expect 2 "forged${escape}[31m"
clean a command
sed 's/unit-chain-8/=1+cmd()/' "$data/unit_chain8.json" > formula.json
expect 0 sweep formula.json --budgets 2 --strategies chain
grep -q "^'=1+cmd()," out.txt || fail "a cell is a formula: $out"

if "$CHECKMATE" help train > out.txt 2>&1; then
    # A name of as many bytes, with a line break and an escape in it.
    LC_ALL=C sed "s/parameter_11/forged$(printf '\\\n')a${escape}[3m/g" "$data/mlp.onnx" > net.onnx
    cmp -s net.onnx "$data/mlp.onnx" && fail "the name was not changed"
    expect 1 train net.onnx --data synthetic --batch 8 --samples 64 --budget 64MB -j 1 -t 1 --costs flops --steps 1 --lr 1e39 --export x
    [ "$status" -eq 1 ] && LC_ALL=C grep -q "$escape" err.txt && fail "train: an escape: $(cat -v err.txt)"
    # A NUL ends no name of a file.
    LC_ALL=C sed 's/external\.bin/external\x00bin/g' "$data/external.onnx" > nul.onnx
    cp "$data/external.bin" external
    expect 1 train nul.onnx --data synthetic --batch 8 --samples 64 --budget 64MB -j 1 -t 1 --costs flops --steps 1
    err_has 'a text with a NUL byte'
fi
finish
