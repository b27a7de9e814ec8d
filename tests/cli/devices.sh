# SPDX-License-Identifier: Apache-2.0
# Device models: the list, costs by name and by file, and measuring this machine.
. "$(dirname "$0")/lib.sh"

XDG_CACHE_HOME=$work/cache
OMP_WAIT_POLICY=passive
export XDG_CACHE_HOME OMP_WAIT_POLICY

run devices
[ "$status" = 0 ] || fail "devices exits with $status"
cp out.txt list.txt
for name in V100 K80 T4 A100 H100 H200 Xeon; do
    grep -q "^$name " list.txt || fail "devices does not list $name"
    run graph MobileNet --batch 4 --costs "device:$name" -o "$name.json"
    [ "$status" = 0 ] || fail "--costs device:$name: $err"
    grep -q '"cost_unit": "ns"' "$name.json" || fail "device:$name gives no nanoseconds"
done
cmp -s V100.json K80.json && fail "two devices give the same costs"

# Memory of its own that tensors may take, in GB, and none of a processor.
[ "$(awk '$1 == "H100" || $1 == "H200" || $1 == "Xeon" { printf "%s ", $2 }' list.txt)" = "80 141 - " ] ||
    fail "devices does not say how much memory they have: $(cat list.txt)"

# Not measured yet; measured; the same as a file of one's own.
run graph MobileNet --costs device:this
[ "$status" = 1 ] || fail "device:this exits with $status before it was measured"
case $err in *"devices --measure"*) ;; *) fail "the message does not say how to measure: $err" ;; esac
run devices --measure
[ "$status" = 0 ] || fail "devices --measure exits with $status: $err"
grep -q '^this ' out.txt || fail "devices does not list this machine"
run graph MobileNet --batch 4 --costs device:this -o this.json
[ "$status" = 0 ] || fail "--costs device:this: $err"
mv "$XDG_CACHE_HOME/checkmate/device.json" here.json
run graph MobileNet --batch 4 --costs device:here.json -o here-graph.json
[ "$status" = 0 ] || fail "--costs device:here.json: $err"
cmp -s this.json here-graph.json || fail "device:this and the same file give different costs"
run solve MobileNet --batch 4 --costs device:here.json --budget 80% --time-limit 5 --json
[ "$status" = 0 ] || fail "solve with device:here.json: $err"

run devices --output x.json
[ "$status" = 2 ] || fail "devices --output without --measure exits with $status"
finish
