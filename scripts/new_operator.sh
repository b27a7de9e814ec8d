#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes an operator from the skeleton in src/ops/skeleton: its record and gradient, its kernels, its test, and its entries in
# src/graph/op_kinds.h. The result compiles and passes its test. Usage: new_operator.sh NAME [ROOT]
set -eu
name=${1:-}
root=${2:-$(dirname "$0")/..}
case $name in
"" | *[!a-z0-9_]* | [0-9_]* | *_backward)
    echo "usage: new_operator.sh NAME [ROOT], NAME in lower case, such as hard_shrink" >&2
    exit 2
    ;;
esac
if [ ${#name} -gt 40 ]; then
    echo "new_operator.sh: NAME has ${#name} characters; 40 are the most" >&2
    exit 2
fi
cd "$root"
list=src/graph/op_kinds.h
if grep -q "X($name)" "$list" || [ -e "src/ops/$name" ] ||
    [ -e "src/ops/$name.h" ] || [ -e "tests/unit/ops/test_op_$name.c" ]; then
    echo "new_operator.sh: there is an operator or a table $name already ($list)" >&2
    exit 1
fi
mkdir -p "src/ops/$name" tests/unit/ops
for part in op cpu; do
    sed "s/skeleton/$name/g" "src/ops/skeleton/${part}_skeleton.c.in" >"src/ops/$name/${part}_$name.c"
done
sed "s/skeleton/$name/g" src/ops/skeleton/test_op_skeleton.c.in >"tests/unit/ops/test_op_$name.c"
sed -e "/^#define CKM_I_OP_KINDS(X)/a\\    X($name) X(${name}_backward) \\\\" \
    -e "/^#define CKM_I_\(OP\|REF\|CPU\)_GROUPS(X)/a\\    X($name) \\\\" "$list" >"$list.new"
mv "$list.new" "$list"
echo "src/ops/$name/op_$name.c src/ops/$name/cpu_$name.c tests/unit/ops/test_op_$name.c, entered in $list"
