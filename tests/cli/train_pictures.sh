# SPDX-License-Identifier: Apache-2.0
# Folders of pictures in practice: damaged pictures, other kinds, empty folders, no pictures.
. "$(dirname "$0")/lib.sh"

red=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGN8JiLHwMDAxMDAwMDAAAAOEgEcNT1k9wAAAABJRU5ErkJggg==
for class in a b; do
    mkdir -p photos/$class
    for i in 1 2 3 4; do
        printf %s $red | base64 -d > photos/$class/$i.png
    done
done
trains="train linear1 --data photos --input-shape 8,8,3 --batch 4 -j 1 --costs flops"
expect 0 $trains --steps 4 -q --json
[ "$(member pictures_left_out)" = 0 ] || fail "nothing is damaged: $out"
[ -z "$err" ] || fail "notes about sound pictures: $err"

# One that is no picture, one that is cut off, another kind, an empty folder.
printf damaged > photos/a/5.jpg
head -c 70 photos/a/1.png > photos/b/5.png
printf x > photos/b/6.webp
mkdir photos/empty photos/other
printf x > photos/other/1.bmp
expect 0 $trains --epochs 3 -q --json
err_has 'photos/a/5.jpg: left out: is not a valid JPEG image'
err_has 'photos/b/5.png: left out: is not a valid PNG image'
err_has 'photos/b: 1 picture of other kinds than PNG and JPEG left out, such as 6.webp'
err_has 'photos/empty: holds no picture and is no class'
err_has 'photos/other: 1 picture of other kinds than PNG and JPEG left out, such as 1.bmp: convert them to be read; without them the folder is no class'
[ "$(member pictures_left_out)" = 2 ] || fail "two are damaged: $out"
[ "$(printf '%s\n' "$err" | grep -c 'left out')" = 4 ] || fail "not each once: $err"
expect 0 $trains --epochs 2
out_has 'pictures left out      2, which cannot be read'
# What takes the place of a damaged one does not depend on when training was interrupted.
expect 0 $trains --epochs 4 -q --save whole.safetensors
expect 0 $trains --steps 3 -q --save parts.safetensors
expect 0 $trains --epochs 4 -q --resume parts.safetensors --save parts.safetensors
cmp whole.safetensors parts.safetensors || fail 'in two parts, other weights'
expect 1 $trains --epochs 3 -q --strict
last_line=$(printf '%s\n' "$err" | tail -n 1)
case $last_line in
*'photos/a/5.jpg: is not a valid JPEG image'*) ;;
*) fail "--strict: $err" ;;
esac

# Folders without a class.
mkdir none
expect 1 train linear1 --data none -j 1
one_error_line
err_has 'none: holds no data of a known format'
mkdir none/a none/b
expect 1 train linear1 --data none -j 1
one_error_line
err_has 'none: holds 2 folders and no PNG or JPEG picture in them'
printf x > none/b/1.webp
expect 1 train linear1 --data none -j 1
one_error_line
err_has 'pictures of other kinds, such as b/1.webp, are not read: convert them'
cp photos/a/1.png none
expect 1 train linear1 --data none -j 1
one_error_line
err_has 'none: holds pictures, but in no folders: each class of pictures needs its own folder in it'

finish
