# SPDX-License-Identifier: Apache-2.0
# Figures, logs and caches: drawing programs end with this one, records are whole, and what cannot be kept is used all the same.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
mkdir bin
# A program that draws nothing and says that all is well: the figure from before stays.
printf '#!/bin/sh\nexit 0\n' > bin/dot
chmod 755 bin/dot
echo old > figure.svg
PATH=$work/bin:$PATH expect 1 graph graph.json --plot figure.svg
err_has "'dot' wrote a figure without an end"
[ "$(cat figure.svg)" = old ] || fail "an empty figure replaced one"
# One that takes long is not left behind by a program that is killed.
printf '#!/bin/sh\necho $$ > %s/dot.pid\nexec sleep 300\n' "$work" > bin/dot
PATH=$work/bin:$PATH "$CHECKMATE" graph graph.json --plot figure.svg > out.txt 2> err.txt &
program=$!
i=0
while [ ! -s dot.pid ] && [ $i -lt 100 ]; do
    sleep 0.1
    i=$((i + 1))
done
kill -s KILL $program
wait $program 2> /dev/null
# What has ended stays in the table of processes where the first process, as in a container, waits for none but its own.
goes_on() {
    case $(sed 's/.*) //' "/proc/$1/stat" 2> /dev/null) in
    '' | Z*) return 1 ;;
    esac
}
i=0
while goes_on "$(cat dot.pid)" && [ $i -lt 100 ]; do
    sleep 0.1
    i=$((i + 1))
done
if goes_on "$(cat dot.pid)"; then
    kill -s KILL "$(cat dot.pid)"
    fail "dot goes on after the program was killed"
fi
[ "$(cat figure.svg)" = old ] || fail "a killed program replaced a figure"

"$CHECKMATE" help train > out.txt 2>&1 || finish
cp "$data/mlp.onnx" net.onnx
train() {
    wanted=$1
    shift
    expect "$wanted" train net.onnx --data synthetic --batch 8 --samples 64 -j 1 -t 1 "$@"
}
# An incomplete record of a killed run is removed; an incomplete line of another program is ended.
train 0 --budget 64MB --costs flops --steps 3 --save state --log log
cp log whole
printf '{"step": 3, "epo' >> log
train 0 --budget 64MB --costs flops --steps 5 --resume state --log log
[ "$(wc -l < log)" -eq 5 ] && [ "$(grep -c '^{"step": [0-9]*, .*}$' log)" -eq 5 ] || fail "torn: $(cat log)"
head -n 3 log | cmp -s - whole || fail "the records from before were changed"
printf 'not ours' > log
train 0 --budget 64MB --costs flops --steps 5 --resume state --log log
[ "$(head -n 1 log)" = 'not ours' ] && [ "$(wc -l < log)" -eq 3 ] || fail "another line: $(cat log)"

# Measured times that cannot be kept are used all the same; nothing is written through a link in the cache.
tight="--budget 100% --compare 1 --input-shape 16,16,3"
measured() {
    # shellcheck disable=SC2086
    run train linear5 --data synthetic --batch 8 --samples 16 -j 1 -t 1 $tight --verbose
}
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
measured
kept=$(find cache -name '*.json' 2> find.txt)
[ -n "$kept" ] || fail "no profile was kept: $err"
echo precious > precious
rm "$kept"
ln -s "$work/precious" "$kept"
measured
err_has 'is no regular file, where a profile is to be kept'
case $err in
*'multiply-accumulates are used'*) fail "times that were measured are not used: $err" ;;
esac
[ "$(cat precious)" = precious ] || fail "the cache was written through a link"
ln -s "$work/precious" cache/checkmate/device.json
expect 1 graph linear5 --costs device:this
err_has 'is no regular file'
unset XDG_CACHE_HOME
HOME='' measured
case $err in
*'multiply-accumulates are used'*) fail "without a folder to keep times in: $err" ;;
esac

# A small stack is made larger, or said to be too small.
train=$(ulimit -s 64 && "$CHECKMATE" train net.onnx --data synthetic --batch 8 --budget 64MB -j 1 --costs flops --steps 1 2>&1)
[ $? -eq 1 ] || fail "a stack of 64 kB: exit status not 1: $train"
case $train in
*"a stack of 64 kB is allowed"*) ;;
*) fail "a stack of 64 kB: $train" ;;
esac
(ulimit -S -s 64 && "$CHECKMATE" train net.onnx --data synthetic --batch 8 --budget 64MB -j 1 --costs flops --steps 1 \
    > out.txt 2> err.txt) || fail "a stack of 64 kB that may be raised: $(cat err.txt)"
finish
