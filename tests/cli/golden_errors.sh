# SPDX-License-Identifier: Apache-2.0
# Bad input: exit status 1 and one line that names the file, the place and the fix; nothing is written.
. "$(dirname "$0")/lib.sh"

bad() {
    expect 1 "$@"
    one_error_line
    [ -z "$out" ] || fail "a failure prints to standard output: $*"
}

graph=unit_chain8.json
cp "$data/$graph" .

# Models that are not there.
bad solve ResNet5 --budget 60%
bad solve vg16 --budget 60%
bad solve something-else-entirely --budget 60%
bad graph missing.json
bad graph missing.onnx
bad graph ./missing
mkdir folder.json
bad graph folder.json
bad graph linear8 --costs device:a10
bad graph linear8 --costs device:missing.json
bad graph linear8 --costs flop
bad graph linear8 --costs missing.json
bad graph linear8 --input-shape 224,224
bad graph VGG16 --width 64
bad graph VGG16 --sequence-length 64
bad graph ConvNeXt-T --heads 4
bad graph ConvNeXt-T --depth 10
bad graph GPT2 --input-shape 32,32,3
bad graph GPT2 --width 100 --heads 8
bad graph ViT-B16 --input-shape 100,100,3
bad graph DDPM-CIFAR10 --input-shape 30,32,3
bad verify missing.json missing.json
bad verify $graph missing.json

# Files that are not what they should be.
head -c 700 "$graph" > truncated.json
bad graph truncated.json
bad verify truncated.json truncated.json
: > empty.json
bad graph empty.json
echo '[1, 2]' > array.json
bad graph array.json
echo '{"format": "checkmate-schedule", "version": 1}' > other.json
bad graph other.json
echo '{"format": "checkmate-graph", "version": 3}' > future.json
bad graph future.json
sed 's/"inputs": \[0\]/"inputs": [99]/' "$graph" > index.json
bad graph index.json
sed 's/{"name": "layer2", "bytes": 1}/{"name": "layer2", "bytes": -1}/' "$graph" > negative.json
bad graph negative.json
bad verify "$graph" "$graph"

# Figures.
bad graph $graph --plot figure.jpeg
bad graph $graph --plot missing-folder/figure.svg
[ ! -e figure.jpeg ] || fail "a refused figure was written"

# Outputs that cannot be written leave nothing behind.
bad graph $graph -o missing-folder/graph.json
bad solve $graph --budget 17 --strategy checkpoint-all -o missing-folder/schedule.json
bad sweep $graph --strategies checkpoint-all -o missing-folder/sweep.csv
golden errors
finish
