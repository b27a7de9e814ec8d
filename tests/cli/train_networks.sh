# SPDX-License-Identifier: Apache-2.0
# Networks of every family and ONNX files train with and without rematerialization to the same bits. (All of them:
# scripts/train_check_all.sh.)
. "$(dirname "$0")/lib.sh"

onnx=''
for name in squeezenet1_1 mobilenet_v2; do
    if [ -r "$shared/onnx/$name.onnx" ]; then
        onnx="$onnx $shared/onnx/$name.onnx"
    else
        printf 'SKIPPED in part: %s is not there\n' "$shared/onnx/$name.onnx" >&2
    fi
done
CHECK_NETWORKS="linear5 MobileNet unet_mini segnet fcn_8" CHECK_ONNX="$onnx" CHECK_DIR="$work/lines" \
    sh "$here/../../scripts/train_check_all.sh" > lines.txt 2>&1 || fail "$(cat lines.txt)"
grep -q 'left out' lines.txt && fail "a network was left out: $(cat lines.txt)"
# Of a small network kernels and tables can take more than recomputation saves: it then fits only as it is.
[ "$(grep -c ' equal .* [1-9][0-9]* recomputations' lines.txt)" -ge 4 ] || fail "hardly anything was recomputed: $(cat lines.txt)"
finish
