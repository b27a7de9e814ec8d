# SPDX-License-Identifier: Apache-2.0
# Validation: what it says and where, the best state, folders, shares, and what cannot be.
. "$(dirname "$0")/lib.sh"

# npy FILE TYPE SHAPE writes the 128 bytes before the data, which come from standard input.
npy() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" > "$1"
    cat >> "$1"
}
# pixels N SEED: bytes that differ.
pixels() {
    awk -v n="$1" -v s="$2" 'BEGIN { for (i = 0; i < n; i++) { s = (s * 75 + 74) % 65537; printf "%c", 32 + s % 90 } }'
}
for part in train held; do
    mkdir $part
    pixels 1344 $(($(printf %s $part | wc -c) * 7)) | npy $part/x.npy '|u1' '7, 8, 8, 3'
    printf '\000\001\002\000\001\002\001' | npy $part/y.npy '|u1' '7,'
done
trains="--input-shape 8,8,3 --batch 2 -j 1 --costs flops --keep-order"

# Seven samples in batches of two: all count. Nothing is learnt, so the loss on the same samples is training's, and batches of
# one give the same.
expect 0 train test --data train --validate train $trains --lr 0 --epochs 2 --json --log log.jsonl
loss=$(member validation_loss)
[ "$(grep -c validation_loss log.jsonl)" = 2 ] || fail "the log lacks validation: $(cat log.jsonl)"
[ "$(member best_step)" = 3 ] || fail "the best is not the first: $out"
err_has 'epoch 2  validation  loss'
err_has '(7 samples'
expect 0 train test --data train --validate train $trains --batch 1 --lr 0 --epochs 1 --json
close() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-5 && d > -1e-5) }' || fail "$3: $1 and $2"
}
close "$loss" "$(member validation_loss)" "batches of two and of one"
close "$loss" "$(member mean_loss)" "validation and training on the same samples"

# Training is the same without it.
expect 0 train test --data train $trains --epochs 3 --json --export a.safetensors
without=$(member last_loss)
[ "$(member validation_loss)" = null ] || fail "validation without samples: $out"
expect 0 train test --data train --validate held $trains --epochs 3 --json --export b.safetensors
[ "$(member last_loss)" = "$without" ] || fail "validation changes training: $without, $out"
[ "$(tail -c 60000 a.safetensors | cksum)" = "$(tail -c 60000 b.safetensors | cksum)" ] || fail "weights differ"

# Within a budget that asks for recomputation, it runs in training's arena, with the same result.
many="--data synthetic --samples 64 --classes 10 --validate 25% --input-shape 32,32,3 --batch 16 -j 1 --costs flops -t 2 --epochs 2 --lr 0.001 --fused"
expect 0 train linear6 $many --json
loss=$(member validation_loss)
last=$(member last_loss)
expect 0 train linear6 $many --budget 75% --json
[ "$(member used_bytes)" -le "$(member budget_bytes)" ] || fail "above the budget: $out"
[ "$(member anonymous_growth_bytes)" -le "$(member budget_bytes)" ] || fail "memory grew above the budget: $out"
[ "$(member last_loss)" = "$last" ] || fail "the budget changes training: $last, $out"
close "$loss" "$(member validation_loss)" "validation with and without a budget"
awk -v o="$(member overhead)" 'BEGIN { exit !(o > 0) }' || fail "nothing was computed again: $out"

# A share of the samples: seven, of which two are held back.
expect 0 train test --data train --validate 30% $trains --epochs 1
err_has '5 samples, 2 batches an epoch'
err_has 'validation on 2 samples'
expect 1 train test --data train --validate 90% $trains
one_error_line
err_has 'besides those for validation'

# The best state can be resumed, and records its loss.
expect 0 train test --data train --validate held $trains --epochs 4 --lr 0.5 --save-best best.safetensors --json
step=$(member best_step)
least=$(member best_validation_loss)
expect 0 train test --data train --validate held $trains --lr 0.5 --steps $((step + 1)) --resume best.safetensors --json
[ "$(member steps)" = 1 ] || fail "the best is not the state after $step steps: $out"
now=$(member validation_loss)
best=$(member best_validation_loss)
awk -v n="$now" -v l="$least" 'BEGIN { exit !(n >= l) }' && [ "$best" != null ] && fail "$now is no better than $least: $out"
grep -aq '"validation.least_loss":"' best.safetensors || fail "best.safetensors does not say how good it is"

# A folder of images with 'train' and 'val': classes go by their names. The pictures are 2x2 points.
picture=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGPkEpHbx8DAwHVHjkvkGQAQcAMEM4RBlAAAAABJRU5ErkJggg==
for place in train/ant train/bee train/cat val/bee test/cat; do
    mkdir -p "photos/$place"
    printf %s $picture | base64 -d > "photos/$place/1.png"
done
mkdir photos/train/dog
expect 0 train test --data photos $trains --epochs 1 --export w.safetensors
err_has '3 classes (ant, bee, cat); validation on 1 samples of photos/val'
grep -aq '"class_names":"\[\\"ant\\",\\"bee\\",\\"cat\\"\]"' w.safetensors || fail "w.safetensors does not name the classes"
grep -aq '"setting.pixels":"symmetric"' w.safetensors || fail "w.safetensors does not say how pixels are scaled"
grep -aq '"setting.lr":"0.01' w.safetensors || fail "w.safetensors does not say the learning rate"
expect 0 train test --data photos --validate none $trains --epochs 1 --json
[ "$(member validation_loss)" = null ] || fail "--validate none validates: $out"
rmdir photos/train/dog  # which is told before
mkdir photos/val/emu
cp photos/val/bee/1.png photos/val/emu
expect 1 train test --data photos $trains --epochs 1
one_error_line
err_has 'has a class "emu" that there is none of'

expect 0 train test --data train --validate held $trains --epochs 1 --quiet
[ -z "$err" ] || fail "--quiet says: $err"
expect 2 train test --data train --save-best x $trains
err_has '--save-best needs samples to validate on'
expect 2 train test --data train --validate 100% $trains
err_has 'no percentage above 0 and below 100'
expect 1 train test --data train --validate nowhere $trains
one_error_line
err_has 'nowhere: cannot open'
expect 2 train test --data train --validate held --check --save-best x $trains
finish
