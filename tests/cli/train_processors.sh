# SPDX-License-Identifier: Apache-2.0
# The budget on other processors than this one: levels that oneDNN knows, threads fewer and more than there are
# processors, huge pages off, stacks of another size, an environment that asks for one heap a thread. Anonymous memory
# grows by no more than the budget, and training runs under a limit on the address space where it could not otherwise.
. "$(dirname "$0")/lib.sh"

grep -q __asan_init "$CHECKMATE" && skip "AddressSanitizer needs shadow memory for every byte"
source=${CKM_SOURCE_DIR:-$(dirname "$0")/../..}

CHECKMATE=$CHECKMATE TABLE_WRITE=no TABLE_DIR="$work/table" TABLE_LEVELS="SSE41 AVX2 AVX512_CORE" TABLE_THREADS="1 8" \
    TABLE_BUDGETS="75" TABLE_SOLVE_SECONDS=1 TABLE_NETWORKS="MobileNet:32,32,3:32 linear8:32,32,3:16" \
    sh "$source/scripts/budget_table.sh" > table.txt 2> table.err ||
    fail "a cell is above its budget or does not run: $(cat table.txt table.err)"
[ "$(grep -c '^| MobileNet\|^| linear8' table.txt)" -eq 2 ] || fail "not all cells are there: $(cat table.txt)"
grep -q '^12 cells' table.txt || fail "not all cells are there: $(cat table.txt)"

# within ENVIRONMENT...: a run at 75 % with this environment.
within() {
    env "$@" "$CHECKMATE" train linear8 --data synthetic --input-shape 32,32,3 --batch 8 --samples 64 --fused --costs flops \
        --time-limit 1 --steps 3 --budget 75% -j 3 --json > out.json 2> err.txt || fail "$*: $(cat err.txt)"
    out=$(cat out.json)
    [ "$(member anonymous_growth_bytes)" -gt 0 ] || fail "$*: growth was not measured: $out"
    [ $(($(member anonymous_growth_bytes) + $(member kernel_bytes))) -le "$(member budget_bytes)" ] || fail "$*: grew beyond the budget: $out"
}
within GLIBC_TUNABLES=glibc.malloc.hugetlb=1
within OMP_STACKSIZE=8m OMP_WAIT_POLICY=active
within OMP_THREAD_LIMIT=2
within OMP_DYNAMIC=true
within MALLOC_ARENA_MAX=64 MALLOC_MMAP_THRESHOLD_=4096
within LC_ALL=C HOME=/nonexistent

expect 2 train linear8 --data synthetic --on-excess perhaps
finish
