# SPDX-License-Identifier: Apache-2.0
# Which clang this system has. Sourced, not run. Sets $clang to a version, as in clang-$clang, clang-tidy-$clang, llvm-cov-$clang:
# what CKM_CLANG says; else 14, which continuous integration uses, where it is installed or apt has it; else the version that apt
# has for clang itself, 19 in Debian 13.
clang=${CKM_CLANG:-14}
if [ -z "${CKM_CLANG:-}" ] && ! command -v clang-14 >/dev/null && command -v apt-cache >/dev/null &&
    [ -z "$(apt-cache search --names-only '^clang-14$' 2>/dev/null)" ]; then
    clang=$(apt-cache depends clang 2>/dev/null | sed -n 's/^ *Depends: clang-\([0-9][0-9]*\)$/\1/p' | tail -n 1)
    clang=${clang:-14}
fi
