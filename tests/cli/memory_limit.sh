# SPDX-License-Identifier: Apache-2.0
# Address space runs out: a documented exit status each time, no crash, no wrong claim, no file cut short.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" chain.json
"$CHECKMATE" graph VGG16 --batch 16 --granularity layer -o vgg16.json || fail "cannot build the graph"
(ulimit -v 2000000 && "$CHECKMATE" --version) > /dev/null 2>&1 || skip "the program does not start within 2 GB of addresses"

# Kilobytes from far too few to enough.
for strategy in auto ilp stage-bound local-search chain chen-greedy; do
    for limit in 20000 40000 60000 90000 150000 400000; do
        for graph in chain vgg16; do
            rm -f schedule.json
            (ulimit -v $limit && exec "$CHECKMATE" solve $graph.json --budget 95% --strategy $strategy --time-limit 0.3 \
                -o schedule.json --json) > out.txt 2> err.txt
            status=$?
            case $status in
            0) "$CHECKMATE" verify $graph.json schedule.json > verdict.txt 2>&1 ||
                fail "$strategy within $limit kB: a bad schedule: $(cat verdict.txt)" ;;
            1 | 4) [ ! -e schedule.json ] || fail "$strategy within $limit kB: status $status and yet a schedule" ;;
            3) fail "$strategy within $limit kB: says that 95 % of the peak is infeasible" ;;
            127) ;;  # not even the loader has room
            *) fail "$strategy within $limit kB on $graph: exit status $status: $(cat err.txt)" ;;
            esac
        done
    done
done
finish
