#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/check_abi.sh notices what programs can: tried on a small library in a tree of its own.
set -eu
command -v abidiff >/dev/null && command -v abidw >/dev/null || { echo "skipped: abidiff is missing (abigail-tools)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
mkdir -p tree/scripts tree/include/checkmate tree/src tree/build
cp "$CKM_SOURCE_DIR/scripts/check_abi.sh" tree/scripts/
failed=0

# build SONAME_MINOR PRIVATE_MEMBERS PUBLIC_MEMBERS ENUMERATORS MORE_FUNCTIONS: the library and its header.
build() {
    cat >tree/include/checkmate/small.h <<END
#include <stdint.h>
typedef struct ckm_box ckm_box;
typedef struct ckm_size { int64_t bytes; $3 } ckm_size;
typedef enum ckm_kind { CKM_SMALL, CKM_LARGE $4 } ckm_kind;
ckm_box *ckm_box_create(const ckm_size *size, ${parameter:-ckm_kind} kind);
void ckm_box_free(ckm_box *box);
END
    # A header of the library's own that is named like the public one.
    cat >tree/src/small.h <<END
#include <checkmate/small.h>
struct ckm_box { ckm_size size; ckm_kind kind; $2 };
END
    cat >small.c <<END
#include "small.h"
#include <stdlib.h>
ckm_box *ckm_box_create(const ckm_size *size, ${parameter:-ckm_kind} kind)
{
    ckm_box *box = calloc(1, sizeof *box);
    if (box != NULL) { box->size = *size; box->kind = (ckm_kind)kind; }
    return box;
}
#ifndef NO_FREE
void ckm_box_free(ckm_box *box) { free(box); }
#endif
$5
END
    "${CKM_CC:-cc}" -g -shared -fPIC -Itree/include -Itree/src "-Wl,-soname,libcheckmate.so.0.$1" ${flags:-} -o tree/build/libcheckmate.so small.c
}
# check STATUS WHAT [ARGUMENT]
check() {
    got=0
    sh tree/scripts/check_abi.sh tree/build ${3:-} >out 2>&1 || got=$?
    [ "$got" -eq "$1" ] || { echo "FAIL: $2: status $got, expected $1: $(cat out)"; failed=1; }
}

build 1 "" "" "" ""
check 1 "an unknown soname"
check 0 "writing it" --update
check 0 "the same"
grep -q "$scratch" tree/abi/*.xml && { echo "FAIL: the description names a folder of this machine"; failed=1; }
build 1 "int more;" "" "" ""
check 0 "a private member"
build 1 "" "int32_t more;" "" ""
check 1 "a public member"
build 1 "" "" ", CKM_HUGE" ""
check 1 "an enumerator"
parameter=int64_t
build 1 "" "" "" ""
check 1 "the type of a parameter"
parameter=ckm_kind
build 1 "" "" "" "int ckm_box_kind(const ckm_box *box) { return (int)box->kind; }"
check 1 "a new function"
check 0 "a new function, on purpose" --update
check 0 "a new function, known"
flags=-DNO_FREE build 1 "" "" "" "int ckm_box_kind(const ckm_box *box) { return (int)box->kind; }"
check 1 "a function that is gone"
check 1 "a function that is gone, on purpose, with the same soname" --update
flags=-DNO_FREE build 2 "" "" "" ""
check 0 "a function that is gone, with another soname" --update
flags=-g0 build 1 "" "" "" ""
check 1 "no debug information"
[ $failed -eq 0 ] && echo "changes of the interface are noticed"
exit $failed
