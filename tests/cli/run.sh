# SPDX-License-Identifier: Apache-2.0
# run: what a network predicts, from and to .npy files, within a budget.
. "$(dirname "$0")/lib.sh"

# npy FILE DESCR SHAPE: the header of an array; its data is to follow.
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" > "$1"
}
npy x.npy '<f4' '2, 16, 16, 3'
head -c 6144 /dev/zero | tr '\000' '\077' >> x.npy  # 1536 times 0x3f3f3f3f, 0.747
expect 0 train linear5 --data synthetic --input-shape 16,16,3 --batch 4 --samples 8 -j 1 --costs flops --budget 64MB \
    --steps 1 --export weights.safetensors
forward="linear5 --input-shape 16,16,3 -j 1 --weights weights.safetensors"

# The file of weights says for what shape and how many classes the network was trained.
expect 0 run linear5 -j 1 --weights weights.safetensors --input x.npy -o recorded.npy
expect 0 run $forward --input x.npy -o y.npy --json
cmp -s y.npy recorded.npy || fail "the shape that was recorded, another result"
json_keys network batch outputs parameters_from seconds overhead budget_bytes used_bytes region_bytes arena_bytes \
    outside_bytes anonymous_growth_bytes baseline_bytes strategy
[ "$(member batch)" = 2 ] || fail "the batch is $(member batch), not that of the array"
[ "$(member outputs)" = 1 ] || fail "$(member outputs) outputs"
used=$(member used_bytes)
expect 0 run $forward --input x.npy -o again.npy --budget "$((used + used / 10))" --json
cmp -s y.npy again.npy || fail "another budget, another result"
expect 0 run $forward --input x.npy -o again.npy --budget min --json
cmp -s y.npy again.npy || fail "the least budget, another result"
[ "$(member used_bytes)" -le "$(member budget_bytes)" ] || fail "--budget min: uses more than the budget: $out"
[ "$(member used_bytes)" -le "$((used + used / 10))" ] || fail "$(member used_bytes) bytes of $used"
expect 3 run $forward --input x.npy -o none.npy --budget 1kB
one_error_line
[ ! -e none.npy ] || fail "nothing fits, and a file was written"

# Both samples are the same, so are both results; a sample alone gives half of the file.
npy one.npy '<f4' '1, 16, 16, 3'
head -c 3072 /dev/zero | tr '\000' '\077' >> one.npy
expect 0 run $forward --input one.npy -o one_y.npy
out_has "parameters"
tail -c +129 y.npy > both
tail -c +129 one_y.npy > half
cat half half | cmp -s - both || fail "a batch of two is not twice a batch of one"
expect 0 run $forward --input one.npy -o -
tail -c +129 out.txt | cmp -s - half || fail "standard output is not the array"

refused() {
    wanted=$1
    text=$2
    shift 2
    expect "$wanted" run "$@"
    one_error_line
    err_has "$text"
}
npy double.npy '<f8' '2, 2'
head -c 32 /dev/zero >> double.npy
npy empty.npy '<f4' '0, 16, 16, 3'
refused 2 "--input is missing" $forward
refused 2 "both write to standard output" $forward --input x.npy -o - --json
refused 2 "contradict each other" $forward --input x.npy -q -v
refused 2 "would replace a file that is read for --input" $forward --input x.npy -o x.npy
refused 2 "would replace a file that is read for --weights" $forward --input x.npy -o ./weights.safetensors
refused 2 "are the same file: give each a different name" $forward --input x.npy -o y.npy --output ./y.npy
refused 1 "no input called \"z\"; it takes input (float32 2x16x16x3)" $forward --input z=x.npy
refused 1 "no output called 'z'" $forward --input x.npy -o z=y.npy
refused 1 "takes float32 2x16x16x3, and this is float64 2x2" $forward --input double.npy
refused 1 "takes float32 2x16x16x3, and this is float64 2x2" linear5 -j 1 --weights weights.safetensors --input double.npy
refused 1 "weights.safetensors: holds the weights of linear5, not of linear7" linear7 -j 1 --weights weights.safetensors --input x.npy
refused 1 "the array is empty" $forward --input empty.npy
refused 1 "no.npy: cannot open" $forward --input no.npy
refused 1 "is not a readable .npy file" $forward --input weights.safetensors
refused 1 "has no value: neither the model's file nor a file of weights holds it" linear5 --input-shape 16,16,3 --input x.npy
cmp -s y.npy again.npy || fail "an error has changed a file"
finish
