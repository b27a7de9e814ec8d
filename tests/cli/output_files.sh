# SPDX-License-Identifier: Apache-2.0
# Output files: permissions, links, devices, open streams, full disks, several writers, and writers that are killed.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
solve() {
    "$CHECKMATE" solve graph.json --budget 17 --strategy checkpoint-all "$@"
}
mode() {
    stat -c %a "$1"
}

# Permissions: the old file's stay, new files get what the umask leaves.
for mask in 077 022 000; do
    rm -f new.json
    (umask $mask && solve -o new.json > /dev/null) || fail "umask $mask"
    wanted=$(printf '%o' $((0666 & ~0$mask)))
    [ "$(mode new.json)" = "$wanted" ] || fail "umask $mask gives $(mode new.json), expected $wanted"
done
for wanted in 600 640 755; do
    for option in "solve graph.json --budget 17 --strategy checkpoint-all -o old.json" "graph graph.json -o old.json" \
        "graph graph.json --plot old.svg" \
        "sweep graph.json --budgets 2 --strategies checkpoint-all -o old.csv" "report graph.json new.json -o old.html"; do
        file=${option##* }
        case $file in
        *.svg) command -v dot > /dev/null || continue ;;
        esac
        : > "$file"
        chmod $wanted "$file"
        # shellcheck disable=SC2086 # the words are arguments
        (umask 027 && "$CHECKMATE" $option > /dev/null 2> err.txt) || fail "$option: $(cat err.txt)"
        [ "$(mode "$file")" = $wanted ] || fail "$option: permissions are $(mode "$file"), were $wanted"
        [ -s "$file" ] || fail "$option: nothing was written"
    done
done

# Links are written through, also those to nothing.
mkdir links
ln -s ../target.json links/link.json
for target in there 'not there'; do
    [ "$target" = there ] && echo old > target.json || rm -f target.json
    solve -o links/link.json > /dev/null || fail "a link to what is $target"
    [ -L links/link.json ] || fail "the link is gone"
    "$CHECKMATE" verify graph.json target.json > /dev/null || fail "a link to what is $target was not written through"
    [ "$(ls -A links)" = link.json ] || fail "left behind: $(ls -A links)"
done

# Devices and streams that are open.
solve -o /dev/null > /dev/null || fail "-o /dev/null"
[ -c /dev/null ] || fail "/dev/null is no device any more"
"$CHECKMATE" graph graph.json -o expected.json || fail "graph"
# As somebody else than root: a program that replaced /dev/stdout would do harm.
somebody=''
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
    somebody='setpriv --reuid=65534 --regid=65534 --clear-groups'
    chmod 755 "$work"
    $somebody "$CHECKMATE" --version > /dev/null 2>&1 || somebody=''
fi
names='- /dev/fd/1 /proc/self/fd/1'
[ -z "$somebody" ] && [ "$(id -u)" -eq 0 ] || names="$names /dev/stdout"
for name in $names; do
    { echo before; $somebody "$CHECKMATE" graph graph.json -o "$name"; echo after; } > stream.txt 2> err.txt
    { echo before; cat expected.json; echo after; } > wanted.txt
    cmp -s stream.txt wanted.txt || fail "-o $name into a file: $(cat err.txt)"
    $somebody "$CHECKMATE" graph graph.json -o "$name" | cmp -s - expected.json || fail "-o $name into a pipe"
done
"$CHECKMATE" graph graph.json -o /dev/fd/3 3> third.json || fail "-o /dev/fd/3"
cmp -s third.json expected.json || fail "-o /dev/fd/3 wrote something else"
[ ! -L /dev/stdout ] || [ "$(readlink /dev/stdout)" = /proc/self/fd/1 ] || fail "/dev/stdout was replaced"
expect 1 graph graph.json -o /dev/fd/77
one_error_line

# What cannot be written is said in one line, and before the work where that takes long.
mkdir folder
for command in "graph graph.json" "sweep graph.json --strategies checkpoint-all" "solve graph.json --budget 17"; do
    for name in folder folder/ none/x "$work/graph.json/x"; do
        # shellcheck disable=SC2086
        expect 1 $command -o "$name"
        one_error_line
        err_has "$name: cannot open for writing: "
    done
done
mkfifo pipe
timeout 60 "$CHECKMATE" graph graph.json -o pipe > out.txt 2> err.txt
[ $? -eq 1 ] && grep -q 'is a pipe, and nothing reads it' err.txt || fail "a pipe without a reader: $(cat err.txt)"
cat pipe > piped.json &
reader=$!
sleep 1
timeout 60 "$CHECKMATE" graph graph.json -o pipe > out.txt 2> err.txt || fail "a pipe with a reader: $(cat err.txt)"
wait $reader
cmp -s piped.json expected.json || fail "a pipe got something else"
[ "$(ls -A folder)" = '' ] || fail "left behind: $(ls -A folder)"

# A file that the user may not write stays, although the folder would let it be replaced.
if [ "$(id -u)" -ne 0 ] || command -v setpriv > /dev/null; then
    somebody=''
    [ "$(id -u)" -ne 0 ] || somebody='setpriv --reuid=65534 --regid=65534 --clear-groups'
    chmod 755 "$work"
    mkdir open
    chmod 777 open
    echo old > open/kept.json
    chmod 444 open/kept.json
    if $somebody "$CHECKMATE" --version > /dev/null 2>&1; then
        $somebody "$CHECKMATE" graph graph.json -o open/kept.json > out.txt 2> err.txt
        [ $? -eq 1 ] || fail "a write-protected file was replaced"
        grep -q 'open/kept.json: .*ermission' err.txt || fail "a write-protected file: $(cat err.txt)"
        [ "$(cat open/kept.json)" = old ] || fail "a write-protected file has other content"
        # Nor may a folder that is searched but not read keep it from writing.
        chmod 733 open
        $somebody "$CHECKMATE" graph graph.json -o open/new.json 2> err.txt || fail "-wx folder: $(cat err.txt)"
        chmod 777 open
    fi
fi

# A disk that is full, where one can be had: the old file stays, and nothing else does.
if [ "$(id -u)" -eq 0 ] && mkdir disk && mount -t tmpfs -o size=64k,mode=777 tmpfs disk 2> /dev/null; then
    cp graph.json disk/large.json
    head -c 40000 /dev/zero > disk/filler
    cp disk/large.json before.json
    expect 1 graph MobileNet -o disk/large.json
    err_has "disk/large.json: cannot write: No space left on device"
    cmp -s disk/large.json before.json || fail "a full disk changed the old file"
    [ "$(ls -A disk | sort | tr '\n' ' ')" = 'filler large.json ' ] || fail "left behind: $(ls -A disk)"
    umount disk
else
    echo "note: no file system can be mounted here; a small disk was not tried" >&2
fi

# Killed at any moment, two at a time: the file is whole, and the next writer leaves nothing next to it.
mkdir kill
"$CHECKMATE" graph ResNet152 -o network.json > /dev/null || fail "graph ResNet152"
cp network.json kill/out.json
round=0
while [ $round -lt 25 ]; do
    for writer in 1 2; do
        "$CHECKMATE" graph network.json -o kill/out.json > /dev/null 2>&1 &
        eval "writer_$writer=\$!"
    done
    sleep "0.$(printf '%02d' $((round * 13 % 40)))"
    kill -s KILL "$writer_1" "$writer_2" 2> /dev/null
    wait "$writer_1" "$writer_2" 2> /dev/null
    cmp -s kill/out.json network.json || fail "round $round: the file is not whole"
    round=$((round + 1))
done
echo "note: $(($(ls -A kill | wc -l) - 1)) left behind by 50 killed writers" >&2
: > kill/.out.json.ckm-tmp0  # in case none of them was caught while it wrote
: > kill/.out.json.ckm-tmp5
"$CHECKMATE" graph network.json -o kill/out.json > /dev/null || fail "after the killing"
[ "$(ls -A kill)" = out.json ] || fail "left behind: $(ls -A kill)"

# A sweep that is killed has not touched the table from before.
echo old > table.csv
"$CHECKMATE" sweep network.json --budgets 50 --strategies local-search -t 60 -o table.csv > /dev/null 2>&1 &
sweeper=$!
sleep 1
kill -s KILL $sweeper
wait $sweeper 2> /dev/null
[ "$(cat table.csv)" = old ] || fail "a killed sweep changed the table"
finish
