# SPDX-License-Identifier: Apache-2.0
# ONNX files exported from torchvision without weights: parameter counts, batch, input shape, a plan.
. "$(dirname "$0")/lib.sh"

onnx=$shared/onnx
[ -r "$onnx/resnet18.onnx" ] || skip "$onnx is not there"
for pair in resnet18:11,689,512 resnet50:25,557,032 mobilenet_v2:3,504,872 vgg16:138,357,544 densenet121:7,978,856 \
    squeezenet1_1:1,235,496; do
    expect 0 graph "$onnx/${pair%%:*}.onnx"
    out_has "${pair#*:} trained"
done

# Twice the batch, twice the cost; a smaller input, less of it.
expect 0 solve "$onnx/resnet18.onnx" --batch 8 --budget 8GB --strategy checkpoint-all --json
one=$(member baseline_cost)
expect 0 solve "$onnx/resnet18.onnx" --batch 16 --budget 8GB --strategy checkpoint-all --json
two=$(member baseline_cost)
expect 0 solve "$onnx/resnet18.onnx" --batch 8 --input-shape 112,112,3 --budget 8GB --strategy checkpoint-all --json
small=$(member baseline_cost)
[ "$two" -eq $((2 * one)) ] || fail "cost at batch 8: $one, at batch 16: $two"
[ "$small" -lt $((one / 3)) ] || fail "cost at a quarter of the input: $small, of the whole: $one"

expect 0 solve "$onnx/resnet18.onnx" --granularity layer --batch 32 --budget 80% --strategy chen-greedy -o schedule.json
"$CHECKMATE" graph "$onnx/resnet18.onnx" --granularity layer --batch 32 -o graph.json || fail "graph -o"
expect 0 verify graph.json schedule.json
expect 1 graph "$onnx/resnet18.onnx" --input-shape 224,224,4
one_error_line
finish
