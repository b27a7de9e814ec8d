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

# Memory available to tensors, in GB, and none for a processor.
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

# A machine that is busy with other things: said, also in the list; the times are used all the same.
if [ -n "${CKM_BUSY_PRELOAD:-}" ]; then
    LD_PRELOAD=$CKM_BUSY_PRELOAD "$CHECKMATE" devices --measure -j 1 > out.txt 2> err.txt || fail "measuring a busy machine: $(cat err.txt)"
    grep -q '^warning: the machine was busy with other things while the operators were measured (.*): [2-4] rounds gave [0-9.]* to [0-9.]* GB/s and ' \
        err.txt || fail "devices does not say that the machine was busy: $(cat err.txt)"
    sed -n '/^this /,$p' out.txt | tr -s '\n ' ' ' | grep -q ', measured while busy' || fail "nor does its list: $(cat out.txt)"
    LD_PRELOAD=$CKM_BUSY_PRELOAD "$CHECKMATE" profile ResNet50 --input-shape 64,64,3 --batch 2 --steps 5 -j 1 > out.txt 2> err.txt ||
        fail "profiling on a busy machine: $(cat err.txt)"
    grep -q '^warning: the machine was busy with other things while the operators were measured (.*): measure again when nothing else runs$' \
        err.txt || fail "profile does not say that the machine was busy: $(cat err.txt)"
fi

# Ctrl-C and SIGTERM end measuring at once, with a word, as a shell expects it, and write nothing.
# interrupt SIGNAL STATUS ARGUMENT...
interrupt() {
    signal=$1
    wanted=$2
    shift 2
    "$CHECKMATE" "$@" > out.txt 2> err.txt &
    measuring=$!
    until_catches $measuring
    sleep 0.5
    begin=$(date +%s)
    kill -s "$signal" $measuring
    wait $measuring
    status=$?
    [ $status = "$wanted" ] || fail "$signal: $* exits with $status: $(cat err.txt)"
    [ $(($(date +%s) - begin)) -le 20 ] || fail "$signal: $* took $(($(date +%s) - begin)) s to end"
    grep -q '^checkmate: interrupted; nothing was written$' err.txt || fail "$signal: $* says: $(cat err.txt)"
    [ ! -e interrupted.json ] || fail "$signal: $* wrote a file"
}
interrupt INT 130 devices --measure -o interrupted.json
interrupt TERM 143 devices --measure -o interrupted.json
interrupt INT 130 profile ResNet50 --batch 16 --steps 1000 -o interrupted.json

run devices --output x.json
[ "$status" = 2 ] || fail "devices --output without --measure exits with $status"
finish
