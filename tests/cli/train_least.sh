# SPDX-License-Identifier: Apache-2.0
# train --budget min trains within the least budget found. Where a budget cannot be held, --fused is named where it would do.
. "$(dirname "$0")/lib.sh"

expect 0 train MobileNet --data synthetic --samples 4 --steps 1 --input-shape 32,32,3 --batch 2 -j 1 --costs flops --budget 1GB \
    -q -o w.safetensors
printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 32, 32, 3), }" > x.npy
head -c 24576 /dev/zero >> x.npy

small="--data synthetic --input-shape 32,32,3 --batch 8 --samples 64 --steps 2 -j 1 --costs flops"
expect 0 train linear8 $small --fused --budget min --json
budget=$(member budget_bytes)
[ "$budget" -lt "$(member baseline_bytes)" ] || fail "the least budget is no less than keeping everything takes: $out"
[ "$(member used_bytes)" -le "$budget" ] || fail "--budget min: uses more than the budget: $out"
case $(member overhead) in
0 | 0.0 | null) fail "nothing was recomputed: $out" ;;
esac

run train linear8 $small --budget "$budget"
[ "$status" = 3 ] || [ "$status" = 4 ] || fail "without --fused that budget fits as well: $err"
err_has 'with --fused a schedule fits, with an overhead of '
# Where --fused would not help, it is not named.
run train linear8 $small --budget $((budget / 2)) --time-limit 4
[ "$status" = 3 ] || [ "$status" = 4 ] || fail "half of the least budget fits: $err"
case $err in
*--fused*) fail "--fused is named where it does not help: $err" ;;
esac
# A search that is out of time has no budget to name: what the run takes as it is fits, and it says so.
for command in "train MobileNet --data synthetic --samples 8 --steps 1" "run MobileNet --weights w.safetensors --input x.npy"; do
    expect 0 $command --input-shape 32,32,3 --batch 2 -j 1 --costs flops --budget min -t 0.001 --json
    err_has 'nothing was found that takes less than the'
    [ "$(member budget_bytes)" -ge "$(member used_bytes)" ] || fail "more than the budget: $out"
done
finish
