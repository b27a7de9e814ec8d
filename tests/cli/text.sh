# SPDX-License-Identifier: Apache-2.0
# A text: a network trained on its bytes, what is said of it, and a sample that the network writes.
. "$(dirname "$0")/lib.sh"

awk 'BEGIN { for (i = 0; i < 75; i++) printf "abcdefghijklm" }' > text.txt
small="--sequence-length 16 --width 32 --depth 1 --heads 2"
how="--data text.txt --batch 4 --optimizer adamw --lr 0.01 -j 1 --costs flops -t 2"

# Windows begin at every letter. What follows is certain, so it is learnt, and written by a network of which only the file is known.
expect 0 train GPT2 $how $small --steps 60 --validate 20% --json --log log.jsonl --save gpt.safetensors
awk -v l="$(member mean_loss)" -v p="$(member perplexity)" -v b="$(member bits_per_byte)" 'BEGIN {
    exit !(p > 0.999 * exp(l) && p < 1.001 * exp(l) && b > 0.999 * l / log(2) && b < 1.001 * l / log(2)) }' ||
    fail "perplexity and bits are not those of the loss: $out"
awk -v p="$(member validation_perplexity)" 'BEGIN { exit !(p >= 1 && p < 1.2) }' || fail "nothing was learnt: $out"
[ "$(grep -c validation_bits_per_byte log.jsonl)" -ge 1 ] && [ "$(grep -c '"perplexity"' log.jsonl)" = 60 ] ||
    fail "the log: $(tail -n 2 log.jsonl)"
err_has 'bits a byte'
expect 0 run GPT2 --weights gpt.safetensors --generate 24 --prompt cde --temperature 0 -j 1
[ "$out" = "cdefghijklmabcdefghijklmabc" ] || fail "another sample: $out"
# The seed alone says what is drawn. A file has what is shown, and no line's end behind it.
expect 0 run GPT2 --weights gpt.safetensors --generate 40 --prompt cde --temperature 3 --seed 5 -j 1
first=$out
expect 0 run GPT2 --weights gpt.safetensors --generate 40 --prompt cde --temperature 3 --seed 5 -j 1 -o sample.txt --json
[ "$(cat sample.txt)" = "$first" ] && [ "$(wc -c < sample.txt)" = 43 ] || fail "two samples: $first, $(cat sample.txt)"
[ "$(member anonymous_growth_bytes)" -le "$(member budget_bytes)" ] || fail "above the budget: $out"
expect 0 run GPT2 --weights gpt.safetensors --generate 40 --prompt cde --temperature 3 --seed 6 -j 1
[ "$out" != "$first" ] || fail "seeds 5 and 6 give the same"

# Within a budget the same bits.
expect 0 train GPT2 $how $small --depth 3 --steps 6 --json
loss=$(member last_loss)
expect 0 train GPT2 $how $small --depth 3 --steps 6 --json --budget 70%act
[ "$(member last_loss)" = "$loss" ] || fail "the budget changes training: $loss, $out"
awk -v o="$(member overhead)" 'BEGIN { exit !(o > 0) }' || fail "nothing was computed again: $out"

# Tokens of a tokenizer: the file next to the array has its vocabulary, and the number of bytes that the tokens stand for.
# npy FILE TOKEN...: an array of bytes.
npy() {
    file=$1
    shift
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($#,), }" > "$file"
    for token in "$@"; do
        printf "\\$(printf '%03o' "$token")" >> "$file"
    done
}
tokens=$(awk 'BEGIN { for (i = 0; i < 975; i++) printf "%d ", i % 13 }')
# shellcheck disable=SC2086
npy tokens.npy $tokens
echo '{"format": "checkmate-tokens", "version": 1, "vocabulary": 300, "tokens": 975, "bytes": 3900}' > tokens.json
tokenized="--data tokens.npy --batch 4 --optimizer adamw --lr 0.01 -j 1 --costs flops -t 2"
expect 0 train GPT2 $tokenized $small --steps 60 --validate 20% --json --save tokens.safetensors
awk -v l="$(member mean_loss)" -v b="$(member bits_per_byte)" 'BEGIN { r = b / (l / log(2) / 4); exit !(r > 0.999 && r < 1.001) }' ||
    fail "bits a byte are not those of the loss and four bytes a token: $out"
npy prompt.npy 2 3 4
expect 0 run GPT2 --weights tokens.safetensors --generate 12 --prompt-tokens prompt.npy --temperature 0 -j 1
[ "$out" = "2 3 4 5 6 7 8 9 10 11 12 0 1 2 3" ] || fail "another sample: $out"
expect 0 run GPT2 --weights tokens.safetensors --generate 12 --prompt-tokens prompt.npy --temperature 0 -j 1 -o sample.npy
out_has '1x16x300'
[ "$(tail -c 60 sample.npy | od -An -v -t d4 | tr -s ' \n' ' ')" = " 2 3 4 5 6 7 8 9 10 11 12 0 1 2 3 " ] ||
    fail "another array: $(od -An -t d4 sample.npy)"
expect 0 run GPT2 --weights tokens.safetensors --generate 1 --prompt-tokens sample.npy --temperature 0 -j 1
case $out in
*" 3 4") ;;
*) fail "the array that was written is read as something else: $out" ;;
esac
expect 2 run GPT2 --weights gpt.safetensors --generate 1 --prompt x --prompt-tokens prompt.npy
expect 2 run GPT2 --prompt-tokens prompt.npy --input x.npy
npy wrong.npy 2 255
expect 0 run GPT2 --weights tokens.safetensors --generate 1 --prompt-tokens wrong.npy -j 1
sed -i 's/300/200/' tokens.json
expect 0 train GPT2 $tokenized $small --steps 1 --save fewer.safetensors
expect 1 run GPT2 --weights fewer.safetensors --generate 1 --prompt-tokens wrong.npy -j 1
err_has "has token 255, and the network's vocabulary has 200"
expect 1 run GPT2 --weights gpt.safetensors --generate 1 --prompt-tokens nonesuch.npy -j 1
err_has 'nonesuch.npy'
npy empty.npy
expect 1 run GPT2 --weights tokens.safetensors --generate 1 --prompt-tokens empty.npy -j 1
err_has 'is empty'
echo '{"format": "checkmate-tokens", "version": 1, "vocabulary": 12, "tokens": 975, "bytes": 3900}' > tokens.json
expect 1 train GPT2 $tokenized $small --steps 1
err_has 'has token 12, but the file next to it says that its tokenizer knows 12'
echo '{"format": "checkmate-tokens", "version": 1, "vocab": 300}' > tokens.json
expect 1 train GPT2 $tokenized $small --steps 1
err_has 'did you mean "vocabulary"?'
rm tokens.json
expect 0 train GPT2 $tokenized $small --steps 1 --json
[ "$(member bits_per_byte)" = null ] || fail "bytes, which are unknown: $out"

# What cannot be.
expect 1 train GPT2 $how $small --vocabulary 100 --steps 1
err_has 'out of range: the network takes 0 to 99'
expect 1 train MobileNet --data text.txt --input-shape 32,32,3 -j 1 --costs flops
err_has 'reads no tokens; give the folder that holds the data'
expect 1 run linear2 --input-shape 8,8,3 --generate 5 -j 1
err_has 'reads tokens and scores the next one'
expect 1 run GPT2 $small --generate 5 -j 1
err_has 'must score 256 tokens'
expect 2 run GPT2 --generate 5 --prompt ''
expect 2 run GPT2 --generate 5 --input x.npy
expect 2 run GPT2 --prompt x --input x.npy
finish
