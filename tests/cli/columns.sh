# SPDX-License-Identifier: Apache-2.0
# Help, progress, tables and the chart of explain fit a terminal of 60 columns.
. "$(dirname "$0")/lib.sh"

COLUMNS=60
export COLUMNS

# fits ARGUMENTS...: the program ends well, and no line of what it says is wider.
fits() {
    expect 0 "$@"
    printf '%s\n%s\n' "$out" "$err" | awk -v what="$*" 'length($0) > 60 { print length($0) " columns: " what ": " $0; wide = 1 }
        END { exit wide }' >&2 || fail "wider than 60 columns: $*"
}

for command in models graph solve verify report explain sweep max-batch train run export profile strategies devices help; do
    fits $command --help
done
fits help
fits models
fits devices
fits strategies
fits graph linear8 --batch 4
fits solve linear8 --batch 4 --costs flops -t 0.2 --budget 60% --verbose -o s.json
fits graph linear8 --batch 4 --costs flops -o g.json
fits verify g.json s.json
fits report linear8 --batch 4 --costs flops s.json -o s.html
fits solve VGG16 --batch 4 --strategy checkpoint-all --budget 100% -o vgg.json
fits explain VGG16 --batch 4 vgg.json
fits solve linear8 --batch 4 --costs flops -t 0.2 --budget min
fits max-batch linear8 --budget 1GB -t 0.1
small="--data synthetic --input-shape 32,32,3 --batch 8 --samples 64 -j 1 --costs flops --lr 0.0001 -t 0.2"
fits train linear8 $small --budget 90% --steps 2 --validate 20% --save w.safetensors
fits train linear8 $small --budget 80% --check --compare 1 --steps 2
fits profile linear2 --input-shape 8,8,3 --batch 1 -j 1 -o p.json
fits sweep linear8 --batch 4 --costs flops --strategies chen-sqrt -o sweep.csv
finish
