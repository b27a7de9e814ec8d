# SPDX-License-Identifier: Apache-2.0
# Augmentation is the same to the bit within any budget and after going on in the middle of an epoch; it is said everywhere, and
# compared.
. "$(dirname "$0")/lib.sh"

# MNIST's format: 40 pictures of 16 x 16 from the bytes of the program, in 4 classes.
mkdir idx
{
    printf '\000\000\010\003\000\000\000\050\000\000\000\020\000\000\000\020'
    head -c 110240 "$CHECKMATE" | tail -c 10240
} > idx/train-images-idx3-ubyte
{
    printf '\000\000\010\001\000\000\000\050'
    for i in 1 2 3 4 5 6 7 8 9 10; do printf '\000\001\002\003'; done
} > idx/train-labels-idx1-ubyte
small="--data idx --resize --input-shape 16,16,3 --batch 8 -j 1 --costs flops --seed 3"

# 5 steps an epoch. Whole; within less memory; and in two parts that meet in the middle of the second epoch.
expect 0 train test $small --augment flip,crop --steps 13 --save whole.safetensors --json
[ "$(member augment)" = flip,crop ] || fail "the result does not say how: $out"
err_has '; augmented: flip,crop'
tr -d ' ' < whole.safetensors | head -c 20000 | grep -aq '"setting.augment":"flip,crop=0.08"' || fail 'the file does not say how'
expect 0 train test $small --augment flip,crop --steps 13 --budget 85% --fused --time-limit 2 --save tight.safetensors --json
case $(member overhead) in
0 | 0.0 | null) fail "nothing was computed again: $out" ;;
esac
cmp whole.safetensors tight.safetensors || fail 'another budget, other weights'
expect 0 train test $small --augment flip,crop --steps 7 --save parts.safetensors
expect 0 train test $small --augment crop=8%,flip --steps 13 --resume parts.safetensors --save parts.safetensors
cmp whole.safetensors parts.safetensors || fail 'in two parts, other weights'
expect 0 train test $small --augment flip,crop --steps 3 --check
# It does something, and each word something else.
for words in none flip crop crop=0.5; do
    expect 0 train test $small --augment $words --steps 13 --save "$words.safetensors"
    cmp -s whole.safetensors "$words.safetensors" && fail "--augment $words is as flip,crop"
done
cmp -s crop.safetensors crop=0.5.safetensors && fail 'the share has no effect'

# Compared when training continues.
expect 1 train test $small --steps 20 --resume parts.safetensors
one_error_line
err_has 'was trained with augment flip,crop=0.08, and this run has none'
expect 0 train test $small --steps 20 --resume parts.safetensors --change augment
expect 2 train test $small --augment flip,rotate
err_has 'the words are flip, crop, crop=S and none'
expect 2 train test $small --augment crop=0
err_has 'above 0 and at most 1'
expect 1 train test --data synthetic --input-shape 16,16,3 --batch 8 -j 1 --costs flops --augment flip
one_error_line
err_has 'synthetic: the samples are no pictures of 8 bits with one class each, so they cannot be augmented'

finish
