# SPDX-License-Identifier: Apache-2.0
# What --save writes can be resumed, with any names of parameters; and --resume accepts only files that are whole and were
# trained as this run is, or says what differs.
. "$(dirname "$0")/lib.sh"

cp "$data/mlp.onnx" net.onnx
run="--data synthetic --batch 8 --budget 64MB -j 1 -t 1 --costs flops --samples 64"
last_line_has() {
    tail -n 1 err.txt > last.txt
    grep -qF -e "$1" last.txt || fail "the last line lacks '$1': $err"
}
# shellcheck disable=SC2086
train() {
    wanted=$1
    net=$2
    shift 2
    expect "$wanted" train "$net" $run "$@"
}

# Names that the format cannot hold as they are: the metadata's, an optimizer's state, bytes that are no UTF-8.
sed 's/parameter_11/__metadata__/g' net.onnx > name_1.onnx
sed 's/w_momentum/w:momentum/g' net.onnx > name_2.onnx
LC_ALL=C sed 's/w_momentum/w\xff\xfeo%entum/g' net.onnx > name_3.onnx
for model in net name_1 name_2 name_3; do
    train 0 $model.onnx --steps 6 --save whole --export weights
    train 0 $model.onnx --steps 3 --save part
    train 0 $model.onnx --steps 6 --resume part --save part
    cmp -s whole part || fail "$model: going on ends in another state"
    train 0 $model.onnx --steps 6 --weights weights --lr 0
    err_has 'parameters 4 tensors from weights'
done

# Weights are read from a file with or without an optimizer's state.
train 0 net.onnx --optimizer adam --steps 3 --save state --export weights
for from in state weights; do
    train 0 net.onnx --optimizer adam --steps 4 --weights $from --log from_$from
    sed 's/"step_seconds".*//' from_$from > losses_$from
done
cmp losses_state losses_weights || fail "the same weights by two ways train differently"

# Damaged, or not of this program's making.
train 0 net.onnx --steps 3 --save good
change_byte() {
    cp good bad
    printf '\125' | dd of=bad bs=1 seek="$1" conv=notrunc 2> dd.txt
}
size=$(wc -c < good)
for at in $((size - 1)) $((size / 2 + 100)); do
    change_byte "$at"
    cmp -s good bad && fail "byte $at was the same already"
    train 1 net.onnx --steps 6 --resume bad --save out
    last_line_has 'bad: is damaged: what it holds does not have its checksum'
    train 1 net.onnx --steps 6 --weights bad
    last_line_has 'is damaged'
done
for change in 's/"version":"2"/"version":"3"/' 's/"version":/"versio_":/' 's/"rng":"counter"/"rng":"twister"/' \
    's/"checksum":/"checksu_":/'; do
    LC_ALL=C sed "$change" good > bad
    train 1 net.onnx --steps 6 --resume bad
    last_line_has 'bad: is a training run in version "'
done
LC_ALL=C sed 's/"step":"3"/"step":"4"/' good > bad
train 1 net.onnx --steps 6 --resume bad
last_line_has 'is damaged'
[ ! -e out ] || fail "a refused run saved"

# What has to stay, and may be allowed to change.
differs() {
    name=$1
    shift
    train 1 net.onnx --steps 6 --resume good "$@"
    last_line_has "good: was trained with $name "
    last_line_has "or let it differ by the option \`change\` (\"$name\")"
    train 0 net.onnx --steps 6 --resume good --change "loss,$name" "$@"
}
differs lr --lr 0.02
# Before anything is planned: within this budget nothing fits.
train 1 net.onnx --steps 6 --resume good --lr 0.02 --budget 1kB
last_line_has 'or let it differ by the option `change` ("lr")'
differs lr --warmup 2
differs lr --schedule cosine
differs samples --samples 128
# Other samples are split otherwise, so some that were trained on may be held back now.
train 0 net.onnx --steps 3 --save held --validate 25%
train 0 net.onnx --steps 6 --resume held --validate 25%
! grep -q 'trained on before' err.txt || fail "a split that stays is warned of: $err"
train 0 net.onnx --steps 6 --resume good --change samples --samples 128 --validate 25%
err_has 'what is held back for validation may have been trained on before'
differs keep-order --keep-order
differs pixels --pixels unit
train 1 net.onnx --steps 6 --resume good --momentum 0.8
last_line_has 'was trained with "sgd momentum=0.9'
train 1 net.onnx --steps 6 --resume good --change momentum
last_line_has "'momentum' is no setting that may change"
train 2 net.onnx --steps 6 --change lr

# Another network's: of more parameters, and of as many.
sed 's/Relu/Tanh/' net.onnx > other.onnx
train 1 other.onnx --steps 6 --resume good
last_line_has 'good: was trained with network mlp ('
expect 0 train linear3 --data synthetic --batch 8 -j 1 -t 1 --costs flops --samples 64 --steps 2 --save more
expect 1 train linear2 --data synthetic --batch 8 -j 1 -t 1 --costs flops --samples 64 --steps 4 --resume more --change network
last_line_has 'tensors that this network does not have, such as'
# Classes that have been renamed in the folder of pictures are others.
mkdir -p pictures/cat pictures/dog
cp "$golden_dir/report_memory.png" pictures/cat/1.png
cp "$golden_dir/report_memory_dark.png" pictures/dog/1.png
pictures="--data pictures --input-shape 8,8,3 --batch 2 -j 1 --costs flops --budget 64MB"
# shellcheck disable=SC2086
{
    expect 0 train test $pictures --steps 1 --save named
    expect 0 train test $pictures --steps 2 --resume named
    mv pictures/cat pictures/lion
    expect 1 train test $pictures --steps 2 --resume named
    err_has 'named: was trained with classes 2 ('
    err_has 'or let it differ by the option `change` ("classes")'
    expect 0 train test $pictures --steps 2 --resume named --change classes
}
finish
