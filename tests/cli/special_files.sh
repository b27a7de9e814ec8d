# SPDX-License-Identifier: Apache-2.0
# A pipe, a device or a folder where a file is expected: one error, at once. Pipes with a writer are read.
. "$(dirname "$0")/lib.sh"

cp "$data/unit_chain8.json" graph.json
expect 0 solve graph.json --budget 17 --strategy checkpoint-all -o schedule.json
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME

# refused WHY ARGUMENTS...: one line on standard error that gives this reason, within seconds.
refused() {
    why=$1
    shift
    timeout 60 "$CHECKMATE" "$@" > out.txt 2> err.txt < /dev/null
    status=$?
    err=$(cat err.txt)
    [ "$status" -eq 1 ] || fail "checkmate $*: exit status $status: $err"
    one_error_line
    err_has "$why"
}

mkfifo pipe.json pipe.onnx pipe.safetensors
mkdir folder.json folder.onnx folder.safetensors
for kind in pipe folder device; do
    case $kind in
    pipe) name=pipe.json what='pipe.json: is a pipe, and nothing writes to it' ;;
    folder) name=folder.json what='folder.json: is a directory, not a file' ;;
    device) name=/dev/zero what='/dev/zero: is a device, not a file' ;;
    esac
    for command in graph sweep "solve --budget 50%"; do
        # shellcheck disable=SC2086 # the words are arguments
        refused "$what" $command "$name"
    done
    refused "$what" verify "$name" schedule.json
    for command in verify "report -o report.html" explain; do
        # shellcheck disable=SC2086
        refused "$what" $command graph.json "$name"
    done
    refused "$what" explain "$name"
    refused "$what" graph linear8 --costs "$name"
    refused "$what" graph linear8 --costs "device:$name"
    name=${name%.json}
    [ "$kind" = device ] || name=$name.safetensors
    refused "$name: is a $(echo "$kind" | sed 's/folder/directory/'), not a file" \
        train linear8 --data synthetic --budget 100% --weights "$name"
    refused "$name: is a $(echo "$kind" | sed 's/folder/directory/'), not a file" \
        train linear8 --data synthetic --budget 100% --resume "$name"
done
refused 'pipe.onnx: is a pipe, not a file' graph pipe.onnx
refused 'pipe.onnx: is a pipe, not a file' train pipe.onnx --data synthetic
refused 'folder.onnx: is a directory, not a file' graph folder.onnx

# The members of a folder of data. A folder's name decides what they should be.
mkdir -p png/a jpeg/a npy idx cifar
mkfifo png/a/1.png jpeg/a/1.jpg npy/x.npy npy/y.npy idx/train-images-idx3-ubyte idx/train-labels-idx1-ubyte \
    cifar/data_batch_1.bin
refused 'png/a/1.png: is a pipe, not a file' train linear8 --data png
refused 'jpeg/a/1.jpg: is a pipe, not a file' train linear8 --data jpeg
for folder in npy idx cifar; do
    refused "$folder: holds no data of a known format" train linear8 --data "$folder"
done
refused 'pipe.json: is not a folder' train linear8 --data pipe.json

# The search for a graph next to a schedule passes over pipes.
mkdir folder2
cp schedule.json folder2/a.json
mkfifo folder2/b.json
cp graph.json folder2/c.json
timeout 60 "$CHECKMATE" explain folder2/a.json > /dev/null 2> err.txt || fail "explain next to a pipe: $(cat err.txt)"

# On purpose: a pipe with a writer, before or after the program has opened it, and standard input in all its names.
expect 0 graph graph.json -o expected.json
cat graph.json > pipe.json &
timeout 60 "$CHECKMATE" graph pipe.json -o got.json > out.txt 2> err.txt
status=$?
# The writer may not have opened the pipe yet; then the program says so, and here it is again.
if [ "$status" -eq 1 ] && grep -q 'nothing writes to it' err.txt; then
    sleep 1
    timeout 60 "$CHECKMATE" graph pipe.json -o got.json > out.txt 2> err.txt
    status=$?
fi
[ "$status" -eq 0 ] || fail "a pipe with a writer: $(cat err.txt)"
cmp -s expected.json got.json || fail "a pipe with a writer gives another graph"
wait
"$CHECKMATE" graph - -o got.json < graph.json > out.txt 2> err.txt || fail "graph - from a file: $(cat err.txt)"
cmp -s expected.json got.json || fail "graph - from a file gives another graph"
{ sleep 0.3; cat graph.json; } | timeout 60 "$CHECKMATE" graph - -o got.json > out.txt 2> err.txt ||
    fail "graph - from a pipe: $(cat err.txt)"
cmp -s expected.json got.json || fail "graph - from a pipe gives another graph"
for name in - /dev/stdin /dev/fd/0 /proc/self/fd/0; do
    "$CHECKMATE" verify graph.json "$name" < schedule.json > out.txt 2> err.txt ||
        fail "verify $name from a file: $(cat err.txt)"
    { sleep 0.3; cat schedule.json; } | timeout 60 "$CHECKMATE" verify graph.json "$name" > out.txt 2> err.txt ||
        fail "verify $name from a pipe: $(cat err.txt)"
done
finish
