# SPDX-License-Identifier: Apache-2.0
# SIGTERM ends the program in every phase: reading, solving, waiting for an engine's process, sweeping, profiling, training, saving.
. "$(dirname "$0")/lib.sh"

XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
"$CHECKMATE" graph ResNet50 --batch 64 --granularity layer -o graph.json > /dev/null || fail "graph"
mkfifo in out

# Whether process $1 is gone, zombies included.
gone() {
    [ ! -e "/proc/$1/stat" ] || grep -q ') Z ' "/proc/$1/stat" 2> /dev/null
}

# ended MOST: waits at most MOST seconds for $program to end, then kills it. $status is its exit status.
ended() {
    left=$(($1 * 5))
    while ! gone "$program" && [ $left -gt 0 ]; do
        sleep 0.2
        left=$((left - 1))
    done
    kill -s KILL "$program" 2> /dev/null
    wait "$program" 2> /dev/null
    status=$?
    [ $left -gt 0 ]
}

# stopped MOST WHAT: $program, told to stop now, ends within MOST seconds, and so do its children.
stopped() {
    children=$(cat "/proc/$program/task/"*/children 2> /dev/null)
    gone "$program" && fail "$2: it had ended by itself: $(cat err.txt)"
    kill -s TERM "$program" 2> /dev/null
    ended "$1" || fail "$2: still there $1 s after SIGTERM"
    for child in $children; do
        for _ in 1 2 3 4 5; do
            gone "$child" && break
            sleep 1
        done
        gone "$child" || fail "$2: process $child is still there"
    done
}

# until_said TEXT: waits until standard error has it.
until_said() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        grep -q "$1" err.txt && return
        sleep 1
    done
    fail "never said '$1': $(cat err.txt)"
}

# Reading: a pipe whose writer writes nothing, or never all.
for command in "graph -" "verify graph.json -" "explain -"; do
    sleep 300 > in &
    writer=$!
    # shellcheck disable=SC2086 # the words are arguments
    "$CHECKMATE" $command < in > out.txt 2> err.txt &
    program=$!
    sleep 1
    stopped 15 "$command"
    kill $writer
    wait $writer 2> /dev/null
done
# The shell holds the pipe open, so that there is a writer before the program looks for one.
exec 5<> in
printf '{"format":' >&5
"$CHECKMATE" verify graph.json in > out.txt 2> err.txt 5>&- &
program=$!
sleep 1
stopped 15 "reading half a file"
exec 5>&-

# Writing: a pipe whose reader reads nothing.
sleep 300 < out &
reader=$!
exec 4> out
"$CHECKMATE" graph ResNet152 -o out > out.txt 2> err.txt &
program=$!
sleep 2
stopped 15 "writing into a full pipe"
"$CHECKMATE" solve ResNet152 --budget 100% --strategy checkpoint-all -o out > out.txt 2> err.txt &
program=$!
sleep 5
stopped 30 "writing a schedule into a full pipe"
exec 4>&-
kill $reader
wait $reader 2> /dev/null

# Solving, by ourselves and by an engine in a separate process; the grace is ten seconds.
for strategy in local-search ilp lp-bound auto; do
    "$CHECKMATE" solve graph.json --budget 45% --strategy $strategy -t 300 -g 0 --verbose > out.txt 2> err.txt &
    program=$!
    sleep 2
    gone $program && {
        wait $program
        continue
    }
    stopped 30 "solve with $strategy"
done

# With the engine's process stopped as well (SIGSTOP), it is killed.
"$CHECKMATE" solve graph.json --budget 45% --strategy ilp -t 300 --verbose > out.txt 2> err.txt &
program=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    children=$(cat "/proc/$program/task/"*/children 2> /dev/null)
    [ -n "$children" ] && break
    sleep 0.5
done
if [ -n "$children" ]; then
    # shellcheck disable=SC2086
    kill -s STOP $children
    stopped 30 "solve with an engine that does not answer"
    # And when the program itself is killed, the engine goes with it.
    "$CHECKMATE" solve graph.json --budget 45% --strategy ilp -t 300 --verbose > out.txt 2> err.txt &
    program=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        children=$(cat "/proc/$program/task/"*/children 2> /dev/null)
        [ -n "$children" ] && break
        sleep 0.5
    done
    kill -s KILL "$program"
    wait "$program" 2> /dev/null
    for child in $children; do
        for _ in 1 2 3 4 5; do
            gone "$child" && break
            sleep 1
        done
        gone "$child" || fail "the engine's process outlives the program"
    done
else
    kill $program
    wait $program
    echo "note: no process of an engine was seen" >&2
fi

"$CHECKMATE" sweep graph.json --budgets 40 --strategies local-search -t 300 -o sweep.csv > out.txt 2> err.txt &
program=$!
until_catches $program
sleep 2
stopped 30 sweep
[ "$(wc -l < sweep.csv)" -ge 2 ] || fail "an interrupted sweep leaves no rows"

"$CHECKMATE" max-batch MobileNet --memory 8GB -t 300 > out.txt 2> err.txt &
program=$!
sleep 1
gone $program || stopped 30 max-batch

"$CHECKMATE" profile MobileNet --batch 4 --input-shape 64,64,3 -o profile.json > out.txt 2> err.txt &
program=$!
sleep 1
gone "$program" || stopped 30 profile

# Training: while operators are measured, while it trains (and then it saves), and with a log without a reader.
train() {
    # Short steps, and a learning rate at which the loss stays finite for as long as it takes.
    "$CHECKMATE" train linear8 --data synthetic --input-shape 32,32,3 --samples 64 --batch 4 --budget 100% --costs flops \
        --time-limit 1 --lr 1e-9 --steps 1000000000 --verbose "$@" > out.txt 2> err.txt &
    program=$!
}
train --save run.safetensors
until_said 'step [0-9]'
stopped 30 train
[ "$status" -eq 0 ] || fail "train ends with $status: $(cat err.txt)"
[ -s run.safetensors ] || fail "train saved nothing: $(cat err.txt)"
"$CHECKMATE" train MobileNet --data synthetic --batch 4 --budget 60% --lr 1e-9 --steps 1000000000 > out.txt 2> err.txt &
program=$!
sleep 3
stopped 90 "train, from its start on"

# A log without a reader: an error when it is opened; if the reader stops reading, the third signal ends it.
train --log out
ended 60 || fail "train waits for a reader of its log"
grep -q 'out: cannot open for writing: it is a pipe, and nothing reads it' err.txt || fail "log: $(cat err.txt)"
sleep 300 < out &
reader=$!
exec 4> out
# All but the last page of the pipe is full already.
head -c 61440 /dev/zero >&4
train --log out
exec 4>&-
# Ticks of processor time that the program has taken.
ticks() {
    sed 's/.*) //' "/proc/$program/stat" | awk '{ print $12 + $13 }'
}
# Full when it computes no more: what looks at memory takes a tick now and then.
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    before=$(ticks)
    sleep 3
    grep -q 'weights\|parameters' err.txt && [ $(($(ticks) - before)) -le 3 ] && break
done
kill -s TERM "$program"
sleep 1.5
gone "$program" && fail "the log's pipe was not full"
kill -s TERM "$program"
sleep 1.5
gone "$program" && fail "the second SIGTERM ended it without having said what is lost"
grep -q 'another signal quits at once and loses what is not saved yet' err.txt || fail "the second SIGTERM says: $(cat err.txt)"
kill -s TERM "$program"
ended 15 || fail "a third SIGTERM did not end it"
kill $reader
wait $reader 2> /dev/null
finish
