# SPDX-License-Identifier: Apache-2.0
# An ONNX file in training mode: the trained copy predicts in evaluation mode, by the running statistics.
. "$(dirname "$0")/lib.sh"

# npy FILE BATCH BYTE: that many samples of 3x8x8, all bytes the same.
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2, 3, 8, 8), }" > "$1"
    head -c $(($2 * 768)) /dev/zero | tr '\000' "$3" >> "$1"
}
cp "$data/training_mode.onnx" m.onnx
expect 0 train m.onnx --data synthetic --samples 32 --batch 8 --steps 6 --budget 64MB -j 1 --costs flops --export e.onnx
err_has 'note: 2 operators are in training mode in the model'\''s file ("norm"); the copy with the trained weights has them in'
# A sample's result does not depend on the other sample. All in batches of two: other numbers of rows may be summed in another order.
npy ones.npy 2 '\077'  # 0.747
npy halves.npy 2 '\076'
head -c 896 ones.npy > mixed.npy
tail -c 768 halves.npy >> mixed.npy
for i in ones halves mixed; do
    expect 0 run e.onnx --input "$i.npy" -o "$i.out" -j 1
    tail -c +129 "$i.out" > "$i.values"
done
{ head -c 12 ones.values && tail -c 12 halves.values; } | cmp -s - mixed.values || fail "a prediction depends on the rest of its batch"
[ "$(wc -c < mixed.values)" -eq 24 ] || fail "not three numbers for each sample"
cmp -s ones.values halves.values && fail "every input gives the same"
# The statistics that were learned are in it: with those of the file it predicts otherwise.
expect 0 train m.onnx --data synthetic --samples 32 --batch 8 --steps 6 --budget 64MB -j 1 --costs flops --export w.safetensors
expect 0 run e.onnx --input ones.npy -o again.out -j 1 --weights w.safetensors
cmp -s ones.out again.out || fail "the copy's parameters and statistics are not those that were trained"
cmp -s e.onnx m.onnx && fail "the copy is the file"
# `export` writes later what training would have written, from the file itself and the weights, and says the same.
expect 0 export m.onnx --weights w.safetensors -o later.onnx
err_has 'note: 2 operators are in training mode in the model'\''s file ("norm"); the copy with the trained weights has them in'
expect 0 run later.onnx --input ones.npy -o again.out -j 1
cmp -s ones.out again.out || fail "what export writes later predicts otherwise"
expect 0 export m.onnx --weights w.safetensors -o later.safetensors
[ -z "$err" ] || fail "a file of weights has no modes: $err"
expect 0 run e.onnx --input ones.npy -o again.out -j 1 --weights later.safetensors
cmp -s ones.out again.out || fail "the weights that export writes are others"
# The file itself is random.
expect 1 run m.onnx --input ones.npy -o none.npy
one_error_line
err_has '"drop" (dropout) is in training mode, so its result is random'
# What has been exported trains on, and there is nothing more to turn.
expect 0 train e.onnx --data synthetic --samples 32 --batch 8 --steps 1 --budget 64MB -j 1 --costs flops --export f.onnx
case $err in *'training mode'*) fail "the copy is still in training mode: $err" ;; esac
finish
