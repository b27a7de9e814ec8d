# SPDX-License-Identifier: Apache-2.0
# run on pictures: the table, the array, what is left out, and that it is the network that was trained.
. "$(dirname "$0")/lib.sh"

# Pictures of 2x2 points in three colours.
red=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGN8JiLHwMDAxMDAwMDAAAAOEgEcNT1k9wAAAABJRU5ErkJggg==
green=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGMUeSbHwMDAxMDAwMDAAAANQAEcO8QZoQAAAABJRU5ErkJggg==
blue=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGMUkXvGwMDAxMDAwMDAAAAMeAEcATCEOwAAAABJRU5ErkJggg==
for part in train val; do
    for i in 1 2 3; do
        mkdir -p photos/$part/ant photos/$part/bee photos/$part/cat
        printf %s $red | base64 -d > photos/$part/ant/$i.png
        printf %s $green | base64 -d > photos/$part/bee/$i.png
        printf %s $blue | base64 -d > "photos/$part/cat/$i, \"x\".png"
    done
done
expect 0 train linear1 --data photos --input-shape 8,8,3 --batch 3 -j 1 --costs flops --epochs 40 --lr 0.05 --pixels unit \
    --save state.safetensors --export w.safetensors --json
accuracy=$(member validation_accuracy)

# rows FILE: without the head.
rows() {
    tail -n +2 "$1"
}
expect 0 run linear1 photos/val --weights w.safetensors -j 1 -o p.csv
err_has "8x8x3, pixels 'unit' as in training"
err_has 'accuracy  '
expect 0 run linear1 photos/val --weights w.safetensors -j 1 -o quiet.csv -q
[ -z "$err" ] || fail "-q: $err"
cmp -s p.csv quiet.csv || fail "-q: another table"
[ "$(head -n 1 p.csv)" = picture,class_1,probability_1,class_2,probability_2,class_3,probability_3 ] || fail "$(head -n 1 p.csv)"
[ "$(rows p.csv | wc -l)" = 9 ] || fail "rows: $(cat p.csv)"
grep -q '^"photos/val/cat/1, ""x"".png",' p.csv || fail "a path with a comma: $(cat p.csv)"
# Probabilities fall and sum up to one; the first is right as often as validation says.
right=$(rows p.csv | sed 's/^"[^,]*, ""x"".png"/photos\/val\/cat\/x/' | tee rows |
    awk -F, '{ split($1, p, "/"); n += p[3] == $2 } END { print n }')
awk -F, '{ s = $3 + $5 + $7; if (s < 0.9999 || s > 1.0001 || $3 < $5 || $5 < $7) exit 1 }' rows || fail "$(cat rows)"
awk -v r="$right" -v a="$accuracy" 'BEGIN { d = r / 9 - a; exit !(d < 1e-6 && d > -1e-6) }' ||
    fail "$right of 9 right, and validation says $accuracy"
[ "$right" -ge 6 ] || fail "three colours are not told apart: $(cat rows)"

# The state that was saved does as well, any batch gives the same, and without -o the table is on standard output.
for more in "--weights state.safetensors" "--weights w.safetensors --batch 4" "--weights w.safetensors --budget 64MB"; do
    expect 0 run linear1 photos/val -j 1 $more
    cut -d, -f1,2 out.txt > a
    cut -d, -f1,2 p.csv > b
    cmp -s a b || fail "$more: another table: $out"
done

# Paths that begin with a dot are no hidden files.
expect 0 run linear1 ./photos/val --weights w.safetensors -j 1 -o dot.csv
sed 's|^\("\{0,1\}\)\./photos|\1photos|' dot.csv | cmp -s - p.csv || fail "./photos/val: another table: $(cat dot.csv)"

# Arrays have a row a picture, of NaN where there is none to read.
expect 0 run linear1 photos/val --weights w.safetensors -j 1 -o p.npy --json
json_keys network batch outputs parameters_from seconds overhead budget_bytes used_bytes region_bytes arena_bytes \
    outside_bytes anonymous_growth_bytes baseline_bytes strategy pictures pictures_left_out accuracy
[ "$(wc -c < p.npy)" = $((128 + 9 * 3 * 4)) ] || fail "$(wc -c < p.npy) bytes"
printf broken > photos/val/bee/0.png
head -c 70 photos/val/ant/1.png > photos/val/ant/4.png
: > photos/val/ant/5.webp
expect 0 run linear1 photos/val --weights w.safetensors -j 1 -o q.csv
err_has 'photos/val/bee/0.png: left out'
err_has 'photos/val/ant/4.png: left out'
err_has 'of which 2 left out'
err_has '1 picture of other kinds than PNG and JPEG left out, such as photos/val/ant/5.webp'
cmp -s p.csv q.csv || fail "what cannot be read changes the table"
expect 0 run linear1 photos/val --weights w.safetensors -j 1 -o q.npy
[ "$(wc -c < q.npy)" = $((128 + 11 * 3 * 4)) ] || fail "$(wc -c < q.npy) bytes"

refused() {
    wanted=$1
    text=$2
    shift 2
    rm -f none.csv
    expect "$wanted" run "$@"
    err_has "$text"
    [ ! -e none.csv ] || fail "$*: a file was written"
}
refused 1 'photos/val/bee/0.png' linear1 photos/val/bee --weights w.safetensors -o none.csv --strict
refused 1 'photos/val/ant/4.png' linear1 photos/val/ant --weights w.safetensors -o none.csv --strict
mkdir empty
refused 1 'holds no PNG or JPEG picture' linear1 empty --weights w.safetensors -o none.csv
refused 1 'nowhere: cannot open' linear1 nowhere --weights w.safetensors -o none.csv
refused 1 'has no value' linear1 photos/val/cat --input-shape 8,8,3 -o none.csv
refused 2 'leave out --input' linear1 photos/val --input p.npy -o none.csv
refused 2 'cannot both go to standard output' linear1 photos/val --weights w.safetensors --json
refused 2 '--pixels and --strict are for pictures' linear1 --pixels unit --input p.npy
expect 0 train unet_mini --data synthetic --input-shape 64,64,3 --batch 1 --samples 2 -j 1 --costs flops --steps 1 --export u.safetensors
refused 1 'is not one score per class' unet_mini photos/val/cat -o none.csv --weights u.safetensors -j 1
expect 0 run unet_mini photos/val/cat/1* -o u.npy --weights u.safetensors -j 1
[ "$(wc -c < u.npy)" = $((128 + 64 * 64 * 19 * 4)) ] || fail "$(wc -c < u.npy) bytes"
finish
