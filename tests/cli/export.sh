# SPDX-License-Identifier: Apache-2.0
# export, and train --export to ONNX: a network of the zoo as a file that predicts the same, with what its user has to know.
. "$(dirname "$0")/lib.sh"

# Pictures of 2x2 points in three colours.
red=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGN8JiLHwMDAxMDAwMDAAAAOEgEcNT1k9wAAAABJRU5ErkJggg==
green=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGMUeSbHwMDAxMDAwMDAAAANQAEcO8QZoQAAAABJRU5ErkJggg==
blue=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGMUkXvGwMDAxMDAwMDAAAAMeAEcATCEOwAAAABJRU5ErkJggg==
for i in 1 2 3 4; do
    mkdir -p photos/ant photos/bee "photos/a \"cat\""
    printf %s $red | base64 -d > photos/ant/$i.png
    printf %s $green | base64 -d > photos/bee/$i.png
    printf %s $blue | base64 -d > "photos/a \"cat\"/$i.png"
done

# Batch normalization with statistics of its own, a stride that pads one side, a dropout: trained, saved and exported.
expect 0 train MobileNet --data photos --input-shape 32,32,3 --batch 4 -j 1 --costs flops --steps 12 --lr 0.02 --pixels imagenet -t 2 \
    --save state.safetensors --export trained.onnx
expect 0 run MobileNet photos --weights state.safetensors -j 1 -o wanted.csv
cut -d, -f1,2 wanted.csv > wanted
[ "$(cut -d, -f2 wanted.csv | sort -u | wc -l)" -ge 2 ] || fail "it predicts one class, whatever the picture: $(cat wanted.csv)"
same_as_wanted() {
    expect 0 run "$1" photos -j 1 -o got.csv
    err_has "3x32x32, pixels 'imagenet' as in training"
    cut -d, -f1,2 got.csv > got
    cmp -s wanted got || fail "$1 predicts something else: $(diff wanted got)"
    awk -F, 'NR == FNR { p[FNR] = $3; next } FNR > 1 { d = p[FNR] - $3; if (d > 1e-4 || d < -1e-4) exit 1 }' wanted.csv got.csv ||
        fail "$1: other probabilities: $(diff wanted.csv got.csv)"
}
same_as_wanted trained.onnx
expect 0 export MobileNet --weights state.safetensors -o exported.onnx
out_has 'MobileNet'
cmp -s trained.onnx exported.onnx || fail "export writes another file than train --export"
# What a user of ONNX Runtime has to know.
for text in input.layout NCHW input.channels RGB input.height input.mean 0.485,0.456,0.406 input.std 0.229,0.224,0.225 output probabilities \
    '["a \"cat\"","ant","bee"]'; do
    grep -qaF "$text" trained.onnx || fail "trained.onnx does not say $text"
done

# A copy of the file with other weights says the same; and weights alone do.
expect 0 export trained.onnx -o copy.onnx
same_as_wanted copy.onnx
expect 0 export copy.onnx -o again.onnx
cmp -s copy.onnx again.onnx || fail "a copy of a copy is another file"
expect 0 export MobileNet --weights state.safetensors -o weights.safetensors
expect 0 run MobileNet photos --weights weights.safetensors -j 1 -o got.csv
cmp -s wanted.csv got.csv || fail "the exported weights predict something else"

# A language model: tokens in, logits out; the file knows that tokens are bytes.
i=0
while [ $i -lt 60 ]; do
    printf 'the cat sat on the mat. '
    i=$((i + 1))
done > text.txt
expect 0 train GPT2 --data text.txt --sequence-length 16 --width 16 --depth 1 --heads 2 --batch 4 --steps 4 -j 1 --costs flops -t 1 \
    --optimizer adamw --lr 0.01 --save gpt.safetensors
expect 0 export GPT2 --weights gpt.safetensors -o gpt.onnx
for text in input.tokens bytes logits 'next token'; do
    grep -qaF "$text" gpt.onnx || fail "gpt.onnx does not say $text"
done
expect 0 run GPT2 --weights gpt.safetensors --generate 40 --prompt 'the cat' --temperature 0 -j 1 -o wanted.txt
expect 0 run gpt.onnx --generate 40 --prompt 'the cat' --temperature 0 -j 1 -o got.txt
cmp -s wanted.txt got.txt || fail "gpt.onnx writes another text: $(cat got.txt)"

refused() {
    wanted=$1
    text=$2
    shift 2
    rm -f none.onnx
    expect "$wanted" export "$@"
    err_has "$text"
    [ ! -e none.onnx ] || fail "$*: a file was written"
}
refused 2 '--output is missing' MobileNet --weights state.safetensors
refused 2 'must end in .onnx or .safetensors' MobileNet --weights state.safetensors -o none.pt
refused 2 '--weights is missing' MobileNet -o none.onnx
refused 2 'holds no network' graph.json -o none.onnx
refused 1 'no file called '\''NoNet'\''' NoNet --weights state.safetensors -o none.onnx
refused 1 'nowhere.safetensors' MobileNet --weights nowhere.safetensors -o none.onnx
refused 1 'holds the weights of MobileNet, not of VGG16' VGG16 --weights state.safetensors --input-shape 32,32,3 -o none.onnx
refused 1 'has shape' MobileNet --weights state.safetensors --classes 7 -o none.onnx
finish
