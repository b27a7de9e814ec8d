#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds library and program without what trains (-DCKM_RUN=OFF) and plans with them. Fails when anything of the executor gets
# into them: a library that only kernels need, or a symbol that is not there. Usage: planner_only.sh FOLDER [CMAKE ARGUMENT...]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: planner_only.sh FOLDER [CMAKE ARGUMENT...]" >&2; exit 2; }
build=$1
shift
cmake -S "$root" -B "$build" -DCKM_RUN=OFF -DCKM_BUILD_TESTS=OFF "$@" >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" --parallel "$(nproc)" >"$build.log" 2>&1 || { grep -v '^\[' "$build.log"; exit 1; }

library="$build/libcheckmate.so"
needs=$(readelf -d "$library" "$build/checkmate" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for kernels in dnnl gomp png jpeg; do
    case $needs in *"lib$kernels"*)
        echo "the planner links lib$kernels, which only kernels and data need"
        exit 1
        ;;
    esac
done
${CC:-cc} -std=c17 -I"$root/include" -o "$build/plan_network" "$root/examples/plan_network.c" -Wl,-z,defs "$library" \
    "-Wl,-rpath,$build"
(cd "$build" && ./plan_network) >"$build.log" || { echo "planning with it fails:"; cat "$build.log"; exit 1; }
grep -q . "$build.log" || { echo "planning with it says nothing"; exit 1; }
# The program plans, lists no command that it lacks, and says what it lacks in one line.
"$build/checkmate" solve MobileNet --batch 2 --budget 60% --time-limit 1 >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
if "$build/checkmate" --help | grep -E '^  (train|profile) '; then
    echo "the planner's program lists commands that it has not, see above"
    exit 1
fi
for command in "train MobileNet" "profile MobileNet" "help train" "devices --measure"; do
    # shellcheck disable=SC2086 # the command is words
    if "$build/checkmate" $command >"$build.log" 2>&1 || [ "$(wc -l <"$build.log")" -ne 1 ] ||
        ! grep -q "only plans.*'make' in a clone" "$build.log"; then
        echo "the planner's program does not refuse '$command' in one line that says why:"
        cat "$build.log"
        exit 1
    fi
done
if "$build/checkmate" help devices | grep '^ .*--measure'; then
    echo "the planner's program offers to measure, see above"
    exit 1
fi
cmake --install "$build" --prefix "$build/installed" >"$build.log" || { cat "$build.log"; exit 1; }
pc=$(find "$build/installed" -name checkmate.pc)
# Everything that an installed header declares is in the library, and the installed headers include no others.
nm -D --defined-only "$library" | sed -n 's/.* \(ckm_[a-z0-9_]*\)@.*/\1/p' | sort -u >"$build/defined"
for header in "$build"/installed/include/checkmate/*.h; do
    echo "#include <checkmate/${header##*/}>" | ${CC:-cc} -std=c17 -I"$build/installed/include" -xc -fsyntax-only -
    sed -n '/CKM_API/s/.*[ *]\(ckm_[a-z0-9_]*\)(.*/\1/p' "$header"
done | sort -u >"$build/declared"
lacking=$(comm -23 "$build/declared" "$build/defined")
if [ -n "$lacking" ] || [ ! -s "$build/declared" ]; then
    echo "the planner's installed headers declare what its library has not:" $lacking
    exit 1
fi
static=$(PKG_CONFIG_PATH=${pc%/*} pkg-config --static --cflags --libs checkmate | sed 's/-lcheckmate/-l:libcheckmate.a/')
case $static in *dnnl* | *gomp* | *png* | *jpeg*)
    echo "checkmate.pc of the planner asks for what only kernels and data need: $static"
    exit 1
    ;;
esac
eval "${CC:-cc}" -std=c17 "'$root/examples/plan_network.c'" -o "'$build/plan_static'" "$static"
(cd "$build" && ./plan_static) >"$build.log" || { echo "planning with the installed library fails:"; cat "$build.log"; exit 1; }
echo "the planner alone: $(echo "$needs" | sort -u | wc -l) libraries, $(wc -c <"$library") bytes; it plans"
