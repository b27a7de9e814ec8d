# SPDX-License-Identifier: Apache-2.0
# Networks in other sizes than published: parameters and operators are those of the size, schedules are found and
# verified, and a small one of each family trains bit for bit the same with and without rematerialization.
. "$(dirname "$0")/lib.sh"

# parameters MODEL OPTIONS...: what `graph` says.
parameters() {
    "$CHECKMATE" graph "$@" 2> err.txt | sed -n 's/^parameters  *\([0-9,]*\) trained.*/\1/p' | tr -d ,
}

[ "$(parameters GPT2)" = 124439808 ] || fail "GPT2: $(parameters GPT2)"
[ "$(parameters GPT2 --depth 24 --width 1024 --heads 16)" = "$(parameters GPT2-medium)" ] ||
    fail "GPT2 made as large as GPT2-medium differs from it"
[ "$(parameters GPT2 --sequence-length 64)" = 124439808 ] || fail "a shorter text changes GPT2's parameters"
[ "$(parameters Swin-T --input-shape 256,192,3)" = 28288354 ] || fail "another image changes Swin-T's parameters"
[ "$(parameters BERT-base --vocabulary 1000)" -lt "$(parameters BERT-base)" ] || fail "--vocabulary has no effect"

expect 0 solve GPT2 --depth 2 --batch 4 --budget 80% --time-limit 2 -o schedule.json
expect 0 graph GPT2 --depth 2 --batch 4 -o graph.json
expect 0 verify graph.json schedule.json

# MODEL BUDGET OPTIONS...: trains a little, twice, and compares.
trains() {
    model=$1
    budget=$2
    shift 2
    expect 0 train "$model" "$@" --budget "$budget" --data synthetic --samples 64 --check --steps 2 --fused \
        --costs flops --time-limit 1 --threads 2 --json
    [ "$(member equal)" = true ] || fail "$model: $out"
    [ "$(member recomputations)" -gt 0 ] || fail "$model: nothing was computed again: $out"
}

text="--depth 2 --width 32 --heads 4 --vocabulary 64 --sequence-length 64 --batch 8"
trains GPT2 85% $text
trains TinyLlama-1.1B 85% $text
trains BERT-base 85% $text
trains ViT-B16 90% --depth 2 --width 32 --heads 4 --input-shape 96,96,3 --batch 16
trains ConvNeXt-T 85% --depth 6 --width 16 --input-shape 64,64,3 --batch 8
trains Swin-T 90% --depth 6 --width 12 --heads 3 --input-shape 64,64,3 --batch 4
trains DDPM-CIFAR10 90% --depth 1 --width 32 --input-shape 16,16,3 --batch 4

# The mean squared error is what a network that takes noise away is for; classes would not fit it.
expect 0 train DDPM-CIFAR10 --depth 1 --width 32 --input-shape 8,8,3 --batch 2 --data synthetic --samples 8 --steps 1
expect 1 train GPT2 --data synthetic --input-shape 8,8,3 --batch 2
err_has "reads a text"
finish
