#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of what passes with which versions counts what there are results of, says what was skipped, and names why a line was not
# tried; --turn goes through the lines that are to be taken in turn and whose Python is here. Pythons, pip and pytest are stand-ins.
set -eu
cd "$CKM_SOURCE_DIR"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() {
    echo "FAIL: $*"
    failed=1
}
# PyTorch does not bring NumPy, without which some tests skip themselves.
! grep '^torch' scripts/versions.txt | grep -v ',numpy==' || fail "a line of PyTorch without NumPy"

mkdir -p "$scratch/bin" "$scratch/results"
# A Python whose environments have a pip that installs what is not "absent", and a pytest that says what a test of its name does.
cat >"$scratch/bin/python9.1" <<'END'
#!/bin/sh
case "$*" in
*ensurepip*) exit 0 ;;
*"-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    printf '#!/bin/sh\nexit 0\n' >"$folder/bin/pytest"
    printf '#!/bin/sh\ncase "$*" in *absent*) echo "ERROR: No matching distribution found for absent==1" ;; *) exit 0 ;; esac\nexit 1\n' >"$folder/bin/pip"
    chmod +x "$folder"/bin/*
    ;;
*test_torch_fails.py) echo "1 failed, 2 passed in 0.10s"; exit 1 ;;
*test_torch_skips.py)
    echo "SKIPPED [2] tests/test_torch_skips.py:12: transformers is not installed: 5"
    echo "SKIPPED [1] tests/test_torch_skips.py:40: no GPU"
    echo "4 passed, 3 skipped in 0.10s"
    ;;
*test_torch_dies.py) echo "Fatal Python error"; exit 134 ;;
*) echo "5 passed in 0.10s" ;;
esac
END
chmod +x "$scratch/bin/python9.1"
mkdir -p "$scratch/tree/python/tests"
cp -r scripts "$scratch/tree/"
for name in test_torch_fails test_torch_skips test_torch_dies test_torch test_tf2_run; do
    touch "$scratch/tree/python/tests/$name.py"
done
cat >"$scratch/list" <<'END'
# a comment
torch==9.0,numpy==1 9.1
torch==8.0,numpy==1 9.1 turn
torch==7.0,absent==1 9.1 turn
torch==6.0,numpy==1 9.9 turn
tensorflow-cpu==9.0 9.1
tensorflow-cpu==8.0 9.1 turn
END
touch "$scratch/wheel"
# versions STATUS ARGUMENT...: what it prints goes to $scratch/out.
versions() {
    expected=$1
    shift
    got=0
    HOME=$scratch PATH=$scratch/bin:$PATH CKM_VERSIONS="$scratch/results" CKM_VERSIONS_LIST="$scratch/list" CKM_VERSIONS_WHEEL="$scratch/wheel" \
        sh "$scratch/tree/scripts/versions.sh" "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    [ "$got" -eq "$expected" ] || fail "versions.sh $* ends with $got, expected $expected: $(cat "$scratch/out" "$scratch/err")"
}
said() {
    grep -qxF "$1" "$scratch/out" || fail "lacks '$1': $(cat "$scratch/out")"
}
processor=$(sh scripts/processor.sh)
today=$(date +%Y-%m-%d)
CKM_VERSIONS_TESTS="test_torch_skips.py test_tf2_run.py" versions 0 torch==9.0
said "| torch 9.0, numpy 1 | 9.1 | 1 of 4 | 4 | 0 | 3 | - | $today | - | $processor |"
said "Skipped with torch 9.0, numpy 1, Python 9.1: 2 x transformers is not installed: 5; 1 x no GPU"
# What has a result is not run again; one that fails, or dies before it has counted, is named.
CKM_VERSIONS_TESTS= versions 1 torch==9.0
said "| torch 9.0, numpy 1 | 9.1 | 4 of 4 | 11 | 2 | 3 | test_torch_dies test_torch_fails | $today | - | $processor |"
! grep -q 'test_torch_skips' "$scratch/err" || fail "what has a result is run again"
# What was asked for and cannot be had is no failure of the tests, and no success.
CKM_VERSIONS_TESTS=test_torch.py versions 77 torch==7.0
said "| torch 7.0, absent 1 | 9.1 | 0 of 4 | | | | not tried: ERROR: No matching distribution found for absent==1 | | | |"
CKM_VERSIONS_TESTS=test_torch.py versions 77 torch==6.0
said "| torch 6.0, numpy 1 | 9.9 | 0 of 4 | | | | not tried: no Python 9.9 here, and this system has no package of it | | | |"
versions 2 torch==5.0
versions 2 --turn often
# One of each in turn: what says so and has its Python.
export CKM_VERSIONS_TESTS="test_torch.py test_tf2_run.py"
for turn in 0 1 2; do
    status=0
    [ "$turn" -ne 1 ] || status=77
    versions $status --turn $turn
    [ "$(grep -c '^| t' "$scratch/out")" -eq 2 ] && grep -q "^| torch $((8 - turn % 2)).0" "$scratch/out" && grep -q '^| tensorflow-cpu 8.0 .* 5 | 0 | 0 ' "$scratch/out" ||
        fail "turn $turn: $(cat "$scratch/out")"
done
# Where no Python is here, that is said, and is no success.
sed -i 's/9\.1 turn/9.9 turn/' "$scratch/list"
rm -rf "$scratch/results"
versions 77 --turn 0
[ "$(grep -c 'not tried: no Python 9.9 here' "$scratch/out")" -eq 4 ] || fail "no Python: $(cat "$scratch/out")"
# The processor of a row: its name, and the level that decides about kernels.
printf 'model name\t: AMD  EPYC 9\nflags\t\t: sse4_1 avx avx2 fma avx512f \n' >"$scratch/cpuinfo"
[ "$(sh scripts/processor.sh "$scratch/cpuinfo")" = "AMD EPYC 9, AVX-512" ] || fail "a processor: $(sh scripts/processor.sh "$scratch/cpuinfo")"
printf 'model name\t: CPU\nflags\t\t: sse4_1 avx2 avx512_fake\n' >"$scratch/cpuinfo"
[ "$(sh scripts/processor.sh "$scratch/cpuinfo")" = "CPU, AVX2" ] || fail "a processor: $(sh scripts/processor.sh "$scratch/cpuinfo")"
exit $failed
