# SPDX-License-Identifier: Apache-2.0
# One name for two files: every command refuses it before it runs, and what was there stays.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" g.json
cp g.json before.json
quick="--budget 17 --strategy checkpoint-all"
# shellcheck disable=SC2086
expect 0 solve g.json $quick -o s.json
cp s.json schedule.json
mkdir folder
ln s.json hard.json
ln -s s.json soft.json
ln -s new.json dangling.json
ln -s . here

same() {
    expect 2 "$@"
    one_error_line
    err_has 'are the same file: give each a different name'
}
read_too() {
    expect 2 "$@"
    one_error_line
    err_has 'would replace a file that is read for '
}
# shellcheck disable=SC2086
{
    read_too solve g.json $quick -o g.json
    read_too solve g.json $quick -o ./here/g.json
    read_too solve g.json $quick -o "$PWD/folder/../g.json"
    same solve g.json $quick -o w.svg --plot ./w.svg
    read_too graph g.json -o g.json
    same graph g.json -o x.svg --plot x.svg
    same graph MobileNet -o y --plot-network x.svg --plot here/x.svg
    read_too report g.json s.json -o s.json
    read_too report g.json s.json -o hard.json
    read_too report g.json s.json -o soft.json
    read_too report g.json s.json -o g.json
    same sweep g.json --strategies checkpoint-all -o new.json --plot dangling.json
    same sweep g.json --strategies checkpoint-all -o new.svg --plot here/new.svg
}
# The graph that is found next to the schedule is read as well.
mkdir other
cp g.json s.json other
read_too report other/s.json -o other/g.json
# shellcheck disable=SC2086
"$CHECKMATE" solve g.json $quick -o table.txt > table.txt 2> err.txt
[ $? -eq 2 ] || fail "the file of standard output"
grep -q 'table.txt is the file that standard output goes to' err.txt || fail "standard output: $(cat err.txt)"
cmp -s g.json before.json || fail "the graph was changed"
cmp -s s.json schedule.json || fail "the schedule was changed"
# Different files, devices and streams are no such thing.
# shellcheck disable=SC2086
expect 0 solve g.json $quick -o /dev/null --json
# shellcheck disable=SC2086
expect 0 solve g.json $quick -o -
[ ! -e new.json ] || fail "the refused command wrote"

# What takes long is not begun when its outputs cannot be written at its end.
# shellcheck disable=SC2086
expect 1 solve g.json $quick -o s.json --plot none/w.svg
err_has 'none/w.svg: cannot open for writing: '
cmp -s s.json schedule.json || fail "the schedule was written before the figure was found impossible"
expect 1 solve g.json --budget 17 --plot w.jpg
err_has "w.jpg: a figure's file name must end in"

"$CHECKMATE" help train > out.txt 2>&1 || finish
cp "$data/mlp.onnx" m.onnx
cp m.onnx model.onnx
small="--data synthetic --batch 8 --samples 32 --budget 64MB -j 1 -t 1 --costs flops"
# shellcheck disable=SC2086
{
    same train m.onnx $small --save s --export s
    same train m.onnx $small --save s --export here/s
    same train m.onnx $small --save l --log l
    read_too train m.onnx $small --save m.onnx
    read_too train m.onnx $small --export m.onnx
    read_too train m.onnx $small --log ./m.onnx
    read_too profile m.onnx --batch 8 -o m.onnx
    expect 1 train m.onnx $small --save s --export none/e
    one_error_line
    err_has 'none/e: cannot open for writing: '
    expect 1 train m.onnx $small --log none/l
    one_error_line
    [ ! -e s ] && [ ! -e l ] || fail "a refused run wrote something"
    expect 0 train m.onnx $small --save s --steps 3
    read_too train m.onnx $small --resume s --export s
    read_too train m.onnx $small --weights s --save s
    read_too train m.onnx $small --steps 4 --resume s --log s
    # Going on in the same file is what --resume is for.
    expect 0 train m.onnx $small --steps 4 --resume s --save s
    mkdir samples
    echo x > samples/x.npy
    read_too train m.onnx $small --data samples --save samples/x.npy
    # Tensors that the model has in a file of its own.
    cp "$data/external.onnx" "$data/external.bin" .
    read_too train external.onnx $small --save external.bin
    read_too train here/external.onnx $small --export "$PWD/external.bin"
}
cmp -s m.onnx model.onnx || fail "the network was changed"
finish
