// SPDX-License-Identifier: Apache-2.0
// A child that is scheduled only after its parent is gone ends at once: what tells it of a parent's end tells of later ends only.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "milp/milp_shared.h"

// In the child of a parent that ends, or waits for the child: says 's' once it is settled.
static void settle_and_say(pid_t parent, bool after_it, int pipe_end)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    while (after_it && getppid() == parent) {
        nanosleep(&moment, NULL);
    }
    ckm_i_milp_settle_child(parent);
    _exit(write(pipe_end, "s", 1) == 1 ? 0 : 2);
}

// Whether a child settles, with a parent that is there or gone.
static bool settles(bool parent_gone)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t middle = fork();
    assert_true(middle >= 0);
    if (middle == 0) {
        pid_t parent = getpid();
        pid_t child = fork();
        if (child == 0) {
            settle_and_say(parent, parent_gone, ends[1]);
        }
        if (!parent_gone && child > 0) {
            waitpid(child, NULL, 0);
        }
        _exit(child > 0 ? 0 : 1);
    }
    close(ends[1]);
    int status = 0;
    assert_int_equal(waitpid(middle, &status, 0), middle);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char said = 0;
    ssize_t n = read(ends[0], &said, 1);  // 0: all that could have said something are gone
    close(ends[0]);
    assert_true(n >= 0);
    return n == 1;
}

static void ends_with_its_parent(void **state)
{
    (void)state;
    assert_true(settles(false));
    assert_false(settles(true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_with_its_parent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
