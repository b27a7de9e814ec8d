# SPDX-License-Identifier: Apache-2.0
# What goes wrong in training: one clear line and the right exit status, and nothing is lost.
. "$(dirname "$0")/lib.sh"

small="--data synthetic --input-shape 8,8,3 --batch 4 --samples 16 -j 1 --costs flops"

# The last line is the error; progress may stand before it.
last_line_has() {
    case $(tail -n 1 err.txt) in
    *"$1"*) ;;
    *) fail "the last line on standard error lacks '$1': $err" ;;
    esac
}

# Wrong usage.
for arguments in "" "--data synthetic --epochs 2 --steps 3" "--data synthetic --schedule step" \
    "--data synthetic --nesterov --optimizer adam" "--data synthetic --save-every 3" "--data synthetic --momentum 1" \
    "--data synthetic --check --save x" "--data synthetic --budget much" \
    "--data synthetic --optimizer sdg" "--data synthetic --strategy magic" "--data synthetic --resume a --weights b"; do
    expect 2 train test $arguments
    one_error_line
done
expect 1 train test $small --back-end gpu
one_error_line

# Data.
expect 1 train MobileNet --data synthetic --input-shape 3,64,64
err_has 'an input shape is height,width,channels'
expect 1 train test --data nowhere --input-shape 8,8,3
one_error_line
err_has 'nowhere: cannot open'
mkdir empty
expect 1 train test --data empty --input-shape 8,8,3
err_has 'no data of a known format'
expect 1 train test --data synthetic --samples 3 --batch 4 --input-shape 8,8,3
err_has 'less than one batch of 4'
mkdir idx
printf '\000\000\010\003\000\000\000\002\000\000\000\002\000\000\000\002abcdefgh' > idx/train-images-idx3-ubyte
printf '\000\000\010\001\000\000\000\002\000\001' > idx/train-labels-idx1-ubyte
expect 1 train test --data idx --input-shape 8,8,3 --batch 2 -j 1
one_error_line
err_has 'idx/train-images-idx3-ubyte'
err_has '2x2x1'
err_has '8x8x3'
expect 0 train test --data idx --input-shape 8,8,3 --batch 2 -j 1 --resize --steps 2 --costs flops
printf '\000\000\010\001\000\000\000\003\000\001\002' > idx/train-labels-idx1-ubyte
expect 1 train test --data idx --input-shape 8,8,3 --batch 2 -j 1 --resize
one_error_line

# Labels that the network does not have, in the data's own format; a class too many among folders.
printf '\000\000\010\001\000\000\000\002\000\377' > idx/train-labels-idx1-ubyte
expect 1 train linear1 --data idx --input-shape 8,8,3 --batch 2 -j 1 --resize --loss mse
one_error_line
mkdir -p many
cp idx/train-images-idx3-ubyte many/x.npy
printf 'nonsense' > many/y.npy
expect 1 train test --data many --input-shape 8,8,3 --batch 2 -j 1
one_error_line
err_has 'many/'

# NumPy arrays: npy FILE TYPE SHAPE writes the 128 bytes before the data, which come from standard input.
npy() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" > "$1"
    cat >> "$1"
}
mkdir arrays
head -c 384 /dev/zero | npy arrays/x.npy '|u1' '2, 8, 8, 3'
printf '\001\000' | npy arrays/y.npy '|u1' '2,'
arrays="--data arrays --input-shape 8,8,3 --batch 2 -j 1 --costs flops"
expect 0 train test $arrays --steps 1
printf '\001\000\000\000\350\003\000\000' | npy arrays/y.npy '<i4' '2,'
expect 1 train test $arrays --steps 1 --classes 1000
one_error_line
err_has 'arrays/y.npy: sample 1: label 1000 is out of range'
printf '\001\000\000\000\376\377\377\377' | npy arrays/y.npy '<i4' '2,'
expect 1 train test $arrays --steps 1
one_error_line
err_has 'arrays/y.npy: sample 1: label -2 is out of range'
printf '\001\000\001' | npy arrays/y.npy '|u1' '3,'
expect 1 train test $arrays --steps 1
one_error_line
err_has 'arrays/x.npy: holds 2 samples, but "y.npy" holds 3'
printf '\001\000' | npy arrays/y.npy '|u1' '2,'
head -c 384 /dev/zero | npy arrays/x.npy '|u1' '2, 8, 3, 8'
expect 1 train test $arrays --steps 1
one_error_line
err_has 'arrays/x.npy'
err_has '8x3x8'
err_has '8x8x3'
head -c 383 /dev/zero | npy arrays/x.npy '|u1' '2, 8, 8, 3'
expect 1 train test $arrays --steps 1
one_error_line
err_has 'arrays/x.npy'

# Folders of classes: an image that is none, or that ends too early, in either format.
broken() {
    mkdir -p classes/a
    mv image "classes/a/$1"
    expect 1 train test --data classes --input-shape 8,8,3 --batch 1 -j 1 --costs flops
    one_error_line
    err_has "classes/a/$1: is not a valid $2 image"
    rm -r classes
}
printf 'damaged' > image
broken 1.png PNG
printf '\211PNG\r\n\032\n\000\000\000\015IHDR\000\000' > image
broken 2.png PNG
printf 'damaged' > image
broken 1.jpg JPEG
printf '\377\330\377\340\000\020JFIF\000' > image
broken 2.jpeg JPEG

# Budgets: below the floor it is proven that nothing fits.
expect 3 train test $small --budget 1MB
one_error_line
err_has 'at least'
expect 3 train test $small --budget 10kB
err_has 'are proven to be needed in all, in any order; a budget of '
err_has 'was tried and fits; give a larger budget'
# What was tried does fit.
tried=$(sed -n 's/.*a budget of [^;(]*(\([0-9]*\) bytes) was tried.*/\1/p' err.txt)
expect 0 train test $small --budget "$tried"
# With the least that is needed packing may waste too much: then nothing is proven, and the message and status agree.
expect 3 train test $small --budget 1MB
least=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes) are proven.*/\1/p' err.txt)
run train test $small --budget "$least"
case $status in
0) ;;
3) grep -q 'was found that' err.txt && fail "called proven, but only not found: $err" ;;
4) err_has 'was found that' ;;
*) fail "at the least budget: exit $status: $err" ;;
esac

# A loss that is not a number: stops, and the file saved before stays valid. Or continues, if requested.
expect 0 train test $small --steps 3 --save good.safetensors
cp good.safetensors before
expect 1 train test $small --steps 40 --lr 1e30 --change lr --resume good.safetensors --save good.safetensors --save-every 100
last_line_has 'is not a finite number; training stops'
last_line_has 'A lower learning rate'
cmp good.safetensors before || fail "the good file was replaced"
expect 1 train test $small --steps 40 --lr 1e30 --save none.safetensors
last_line_has 'nothing was saved before'
[ ! -e none.safetensors ] || fail "a state that is not finite was saved"
expect 0 train test $small --steps 40 --lr 1e30 --on-nan continue --json
[ "$(member last_loss)" = null ] || fail "the loss should not be a number: $out"
# Nor do such values get into a file when training continues, or when the last step was the first bad one.
cp before good.safetensors
cp "$data/mlp.onnx" net.onnx
for target in good.safetensors net.out.onnx; do
    cp before "$target"
    expect 1 train net.onnx --data synthetic --batch 8 --samples 64 --budget 64MB -j 1 -t 1 --costs flops --steps 1 --lr 1e39 \
        --export $target
    last_line_has "$target: not written: \""
    last_line_has 'not finite numbers'
    cmp $target before || fail "an export replaced $target by what is not finite"
done
expect 1 train test $small --steps 40 --lr 1e30 --on-nan continue --change lr --resume before --save good.safetensors --save-every 10
err_has 'warning: step 20: could not save good.safetensors: not written: '
last_line_has 'not finite numbers'
cmp good.safetensors before || fail "the good file was replaced by what is not finite"

# A full disk: training continues, the last save is an error.
expect 1 train test $small --steps 6 --save /dev/full --save-every 2
err_has 'warning: step 2: could not save /dev/full'
err_has 'step 6/6'
last_line_has 'No space left'
expect 1 train test $small --steps 3 --log /dev/full
err_has 'step 3/3'
last_line_has 'the log is not complete'
expect 1 train test $small --steps 2 --export /dev/full
last_line_has 'No space left'
expect 1 train test $small --steps 2 --save nowhere/x.safetensors
last_line_has 'nowhere/x.safetensors'

# A file that may not grow (ulimit -f counts blocks of 512 bytes or 1 kB): the good one from before stays as it is, and no
# half of a new one is left.
cp before good.safetensors
(
    ulimit -f 100
    exec "$CHECKMATE" train test $small --steps 6 --resume good.safetensors --save good.safetensors > out.txt 2> err.txt
)
status=$?
err=$(cat err.txt)
[ "$status" -eq 1 ] || fail "a file that may not grow: exit status $status: $err"
err_has 'step 6/6'
last_line_has 'File too large'
cmp good.safetensors before || fail "the good file was harmed when there was no room for a new one"
[ "$(ls | grep -c good.safetensors)" -eq 1 ] || fail "something is left of the file that was not written: $(ls)"

# Files to resume from.
expect 1 train test $small --steps 9 --resume nowhere
one_error_line
head -c 700 before > cut.safetensors
expect 1 train test $small --steps 9 --resume cut.safetensors
one_error_line
err_has 'cut.safetensors'
expect 1 train test $small --steps 9 --resume before --optimizer adam
err_has 'give the same optimizer options'
expect 1 train test $small --steps 9 --resume before --seed 8
err_has 'seed 1, not 8'
expect 1 train test --data synthetic --input-shape 8,8,3 --batch 8 --samples 16 -j 1 --steps 9 --resume before
err_has '--batch 4, not 8'
expect 1 train linear1 $small --steps 9 --resume before
last_line_has 'was trained with network test ('
expect 1 train test $small --steps 2 --resume before
err_has 'already holds 3 steps'
err_has 'give more steps or epochs'
expect 1 train linear1 $small --steps 2 --weights before
last_line_has 'before'

# Weights alone: written, and read to start from.
expect 0 train test $small --steps 3 --export weights.safetensors
expect 1 train test $small --steps 9 --resume weights.safetensors
err_has 'holds no training run'
expect 0 train test $small --steps 1 --weights weights.safetensors
err_has 'tensors from weights.safetensors'

finish
