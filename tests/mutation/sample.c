// SPDX-License-Identifier: Apache-2.0
// Read by tests/house/test_mutate.sh, never compiled: one of each thing that scripts/mutate.py changes, and things it
// must leave alone, such as "a < b" here and the types below.
#define LIMIT 3

typedef struct pair {
    int *first, second;
} pair;

static int sample(const pair *p, int n, int (*rows)[2])
{
    int total = 0;
    for (int i = 0; i < n && p != 0; i++) {
        if (p[i].second < LIMIT || !p->first) {
            total += rows[i][0];
            continue;
        }
        total = total * 2 > n ? total : -1;
        puts("i < n; total = 1;");
    }
    while (total >= n) {
        total--;
    }
    return total & 0x10;
}
