# SPDX-License-Identifier: Apache-2.0
# A file of 501 bytes whose Tile makes a tensor of 83 TB is planned, with a warning that names the tensor; others without.
. "$(dirname "$0")/lib.sh"

expect 0 graph "$data/tile_bomb.onnx" -o graph.json
err_has 'tile_bomb.onnx: tensor "y" alone has 43.98 TB: is its shape'
expect 0 graph "$data/mlp.onnx" -o graph.json
[ -z "$err" ] || fail "a warning of a small network: $err"
finish
