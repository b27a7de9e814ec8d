# SPDX-License-Identifier: Apache-2.0
# The head of a network follows the classes of the data, and --classes says otherwise.
. "$(dirname "$0")/lib.sh"

# npy FILE TYPE SHAPE writes the 128 bytes before the data, which come from standard input.
npy() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" > "$1"
    cat >> "$1"
}
# head_is N: the last layer of weights.safetensors has N outputs.
head_is() {
    tr -d ' ' < weights.safetensors | head -c 4000 | grep -aq "\"predictions/bias\":{\"dtype\":\"F32\",\"shape\":\[$1\]" ||
        fail "the head has not $1 classes: $(head -c 600 weights.safetensors)"
}
trains="--input-shape 8,8,3 --batch 2 -j 1 --costs flops --steps 1 --export weights.safetensors"

mkdir arrays
head -c 768 /dev/zero | npy arrays/x.npy '|u1' '4, 8, 8, 3'
printf '\001\000\004\002' | npy arrays/y.npy '|u1' '4,'
expect 0 train test --data arrays $trains
head_is 5
err_has '5 classes'
expect 0 train test --data arrays $trains --classes 7
head_is 7
err_has '5 classes; the network has 7'
expect 0 train test --data synthetic --samples 4 $trains
head_is 1000
expect 1 train test --data arrays $trains --classes 3
one_error_line
err_has 'label 4 is out of range: the network'
printf '\000\000\000\000' | npy arrays/y.npy '|u1' '4,'
expect 0 train test --data arrays $trains
head_is 1000
err_has '1 class; the network has 1000'
# Reals are no classes; a mean squared error compares with anything.
head -c 16000 /dev/zero | npy arrays/y.npy '<f4' '4, 1000'
expect 1 train test --data arrays $trains
one_error_line
err_has 'holds reals, but labels are classes'
expect 0 train test --data arrays $trains --loss mse
head_is 1000

# MNIST's format.
mkdir idx
printf '\000\000\010\003\000\000\000\002\000\000\000\002\000\000\000\002abcdefgh' > idx/train-images-idx3-ubyte
printf '\000\000\010\001\000\000\000\002\000\003' > idx/train-labels-idx1-ubyte
expect 0 train test --data idx --resize $trains
head_is 4

# A map of classes, a label a pixel.
head -c 12288 /dev/zero | npy arrays/x.npy '|u1' '1, 64, 64, 3'
{ head -c 4095 /dev/zero && printf '\005'; } | npy arrays/y.npy '|u1' '1, 64, 64'
expect 0 train unet_mini --data arrays --input-shape 64,64,3 --batch 1 -j 1 --costs flops --steps 1 --json
[ "$(member first_loss)" != null ] || fail "no loss: $out"
expect 1 train unet_mini --data arrays --input-shape 64,64,3 --batch 1 -j 1 --costs flops --steps 1 --classes 5
err_has 'label 5 is out of range'
expect 0 graph unet_mini --classes 6 --input-shape 64,64,3
out_has parameters
expect 1 graph GPT2 --classes 6
err_has 'GPT2 has no number of classes to choose'
expect 1 graph "$data/mlp.onnx" --classes 6
err_has '--classes is for networks of the zoo'
finish
