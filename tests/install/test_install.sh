#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a scratch prefix, then builds and runs programs against what was installed: through the CMake
# package and through pkg-config, against the shared and the static library, from C and C++; among them the
# library example of README.md.
set -eu
if [ -n "${CKM_INSTRUMENTED:-}" ]; then
    echo "skipped: a build with sanitizers or coverage is not what gets installed"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
step() { echo "== $*"; }
must_exist() {
    for path in "$@"; do
        [ -e "$path" ] || { echo "not installed: $path"; exit 1; }
    done
}

step "install into a prefix"
prefix="$scratch/a prefix"  # with a space, as users have them
cmake --install "$CKM_BINARY_DIR" --prefix "$prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
libdir=$(dirname "$(find "$prefix" -name libcheckmate.a)")
must_exist "$libdir/libcheckmate.so" "$libdir/pkgconfig/checkmate.pc" "$libdir/cmake/checkmate/checkmate-config.cmake" \
    "$prefix/share/man/man1/checkmate.1" "$prefix/share/man/man1/checkmate-solve.1" \
    "$prefix/share/bash-completion/completions/checkmate" "$prefix/share/zsh/site-functions/_checkmate" \
    "$prefix/share/fish/vendor_completions.d/checkmate.fish" "$prefix/share/doc/checkmate/LICENSE" "$prefix/bin/checkmate"
for header in "$CKM_SOURCE_DIR"/include/checkmate/*.h; do
    must_exist "$prefix/include/checkmate/$(basename "$header")"
done
if grep -rl -e "$CKM_SOURCE_DIR" -e "$CKM_BINARY_DIR" "$prefix/include" "$libdir/cmake" "$libdir/pkgconfig"; then
    echo "installed files name the build tree, see above"
    exit 1
fi
"$prefix/bin/checkmate" models | grep VGG16 || { echo "the installed program lists no networks"; exit 1; }

step "DESTDIR is honoured"
DESTDIR="$scratch/dest" cmake --install "$CKM_BINARY_DIR" --prefix /usr/ckm-test >"$scratch/log"
must_exist "$scratch/dest/usr/ckm-test/bin/checkmate" "$scratch/dest/usr/ckm-test/include/checkmate/checkmate.h"
[ ! -e /usr/ckm-test ] || { echo "wrote outside DESTDIR"; exit 1; }

step "sources: the examples and README.md's"
awk '/^```c$/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$CKM_SOURCE_DIR/README.md" >"$scratch/readme.c"
[ -s "$scratch/readme.c" ] || { echo "README.md has no library example"; exit 1; }
sources="$scratch/readme.c"
for source in "$CKM_SOURCE_DIR"/examples/*.c; do
    sources="$sources;$source"
done

cd "$scratch"  # one example writes a file
run() {
    "$@" >"$scratch/out" || { echo "failed: $*"; cat "$scratch/out"; exit 1; }
    grep -q 'instead of\|overhead\|parameters\|without rematerialization' "$scratch/out" || { echo "odd output of $*:"; cat "$scratch/out"; exit 1; }
}

step "CMake package"
cmake -S "$CKM_SOURCE_DIR/tests/install/consumer" -B "$scratch/consumer" "-DCMAKE_PREFIX_PATH=$prefix" \
    "-DCONSUMER_SOURCES=$sources" "-DCMAKE_C_COMPILER=${CKM_CC:-cc}" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/consumer" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
for program in "$scratch"/consumer/*_shared "$scratch"/consumer/*_static; do
    run "$program"
done
run "$scratch"/consumer/readme_shared
grep -q '^cost 101 instead of 91, peak 29 bytes, 15 steps$' "$scratch/out" || { echo "README.md says something else than its example:"; cat "$scratch/out"; exit 1; }
readelf -d "$scratch/consumer/own_graph_shared" | grep -q 'libcheckmate\.so\.' || { echo "not linked to the shared library"; exit 1; }
if readelf -d "$scratch/consumer/own_graph_static" | grep -q 'libcheckmate'; then
    echo "the static consumer needs the shared library"
    exit 1
fi

step "add_subdirectory gives the same names"
mkdir "$scratch/outer"
cat >"$scratch/outer/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(outer C CXX)
add_subdirectory("$CKM_SOURCE_DIR" checkmate)
add_executable(plan "$scratch/readme.c")
target_link_libraries(plan checkmate::checkmate)
add_executable(plan_static "$scratch/readme.c")
target_link_libraries(plan_static checkmate::checkmate_static)
END
cmake -S "$scratch/outer" -B "$scratch/outer/build" "-DCMAKE_C_COMPILER=${CKM_CC:-cc}" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }

step "CMake names what the static library lacks"
mkdir "$scratch/none"
if PKG_CONFIG_LIBDIR="$scratch/none" cmake -S "$CKM_SOURCE_DIR/tests/install/consumer" -B "$scratch/lacking" \
    "-DCMAKE_PREFIX_PATH=$prefix" "-DCONSUMER_SOURCES=$sources" "-DCMAKE_C_COMPILER=${CKM_CC:-cc}" >"$scratch/log" 2>&1; then
    echo "configures without jansson"
    exit 1
fi
grep -q 'libjansson-dev' "$scratch/log" || { echo "does not name libjansson-dev:"; cat "$scratch/log"; exit 1; }

step "pkg-config"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
[ "$(pkg-config --modversion checkmate)" = "$(sed -n 's/#define CKM_VERSION_STRING "\(.*\)"/\1/p' \
    "$CKM_SOURCE_DIR/include/checkmate/base.h")" ] || { echo "wrong version in checkmate.pc"; exit 1; }
# eval: pkg-config quotes the space of the prefix for a shell.
eval "${CKM_CC:-cc}" -std=c17 "'$scratch/readme.c'" -o "'$scratch/pc_shared'" "$(pkg-config --cflags --libs checkmate)"
LD_LIBRARY_PATH="$libdir" run "$scratch/pc_shared"
static_flags=$(pkg-config --static --cflags --libs checkmate | sed 's/-lcheckmate/-l:libcheckmate.a/')
eval "${CKM_CC:-cc}" -std=c17 "'$scratch/readme.c'" -o "'$scratch/pc_static'" "$static_flags"
run "$scratch/pc_static"

step "C++"
if command -v "${CKM_CXX:-c++}" >/dev/null; then
    eval "${CKM_CXX:-c++}" -std=c++17 -Wall -Wextra -Werror "'$CKM_SOURCE_DIR/tests/install/consumer/use_from_cxx.cc'" \
        -o "'$scratch/pc_cxx'" "$(pkg-config --cflags --libs checkmate)"
    LD_LIBRARY_PATH="$libdir" "$scratch/pc_cxx"
else
    echo "skipped: no C++ compiler"
fi
echo "the installed copy works"
