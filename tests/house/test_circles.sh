#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No files of the library call each other in a circle; the check sees circles of two and of three, and lets tables be.
set -eu
check="$CKM_SOURCE_DIR/scripts/check_circles.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sh "$check" "$CKM_BINARY_DIR/libcheckmate.a"

# planted NAME EXPECTED FILE...: files as "name: text", one archive.
planted() {
    name=$1
    expected=$2
    shift 2
    rm -rf "$scratch/$name"
    mkdir "$scratch/$name"
    for file in "$@"; do
        printf '%s\n' "${file#*: }" >"$scratch/$name/${file%%: *}.c"
        ${CKM_CC:-cc} -c -o "$scratch/$name/${file%%: *}.c.o" "$scratch/$name/${file%%: *}.c"
    done
    ar rc "$scratch/$name.a" "$scratch/$name"/*.o
    found=0
    sh "$check" "$scratch/$name.a" >"$scratch/out" 2>&1 || found=1
    [ "$found" -eq "$expected" ] || { echo "$name: expected $expected, found $found:"; cat "$scratch/out"; exit 1; }
}

planted line 0 "a: void b(void); void a(void) { b(); }" "b: void c(void); void b(void) { c(); }" "c: void c(void) {}"
planted two 1 "a: void b(void); void a(void) { b(); }" "b: void a(void); void b(void) { a(); }"
planted three 1 "a: void b(void); void a(void) { b(); }" "b: void c(void); void b(void) { c(); }" \
    "c: void a(void); void c(void) { a(); }" "d: void a(void); void d(void) { a(); }"
planted table 0 "a: extern void (*const table[])(void); void help(void) {} void a(void) { table[0](); }" \
    "b: void help(void); static void b(void) { help(); } void (*const table[])(void) = {b};"
echo "no circles of files"
