// SPDX-License-Identifier: Apache-2.0
// Every exported function, once as it should be called and once with NULL for each of its pointers, each time in a
// process of its own: NULL is refused with CKM_ERR_ARGUMENT, or does what the header says, and nothing faults. A
// function of the library that is not called here fails the test.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_calls.h"
#include "scratch.h"

// What is wrong with a call that came back; NULL: nothing.
static const char *judge(const api_visitor *v)
{
    if (!v->right) {
        return "gives a wrong value";
    }
    if (!v->gives_status) {
        return NULL;
    }
    bool needed = v->null >= 0 && (v->optional >> v->null & 1U) == 0;
    if (needed) {
        return v->status == CKM_ERR_ARGUMENT ? NULL : "does not refuse NULL";
    }
    return v->status == CKM_OK || v->any_status ? NULL : "fails";
}

// A child's exit status: that a call was right, plus the number of its pointers; that it was wrong; that there is none.
// Any other is a crash: sanitizers end a process with an exit status of their own.
enum { CALL_RIGHT = 100, CALL_WRONG = 150, CALL_NONE };

// In the child: makes the call and returns the exit status.
static int make_call(api_visitor *v)
{
    api_visit(v);
    if (v->name == NULL) {
        return CALL_NONE;
    }
    const char *why = judge(v);
    if (why != NULL) {
        printf("%s, pointer %d NULL: %s (%s: %s)\n", v->name, v->null, why, ckm_status_name(v->status),
               v->error.message);
        return CALL_WRONG;
    }
    return CALL_RIGHT + v->n_pointers;
}

static void test_calls(void **state)
{
    scratch_stay stay;
    api_world w = {0};
    int bad = 0;
    int calls = 0;
    (void)state;
    scratch_enter(&stay);
    ckm_error err = CKM_ERROR_INIT;
    if (api_set_up(&w, &err) != CKM_OK) {
        fail_msg("cannot set up: %s", err.message);
    }
    bool more = true;
    for (int wanted = 0; more; wanted++) {
        int n_pointers = 0;
        for (int null = -1; null < n_pointers; null++) {
            int how = 0;
            fflush(stdout);
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                api_visitor v = {.w = &w, .wanted = wanted, .null = null, .right = true};
                int outcome = make_call(&v);
                fflush(stdout);
                _exit(outcome);
            }
            assert_int_equal(waitpid(child, &how, 0), child);
            const int outcome = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
            if (outcome == CALL_NONE) {
                more = false;
                break;
            }
            calls++;
            if (outcome >= CALL_RIGHT && outcome < CALL_WRONG) {
                n_pointers = null < 0 ? outcome - CALL_RIGHT : n_pointers;
                continue;
            }
            bad++;
            if (outcome != CALL_WRONG) {
                printf("call %d, pointer %d NULL: wait status %d\n", wanted, null, how);
            }
            // An exit status that no call gives must not go on for ever.
            more = more && bad < 100;
        }
    }
    api_tear_down(&w);
    scratch_leave(&stay);
    printf("%d calls\n", calls);
    assert_int_equal(bad, 0);
}

typedef struct names {
    char at[512][64];
    int n;
} names;

static void note_name(const char *name, void *user)
{
    names *all = user;
    assert_true(all->n < 512);
    snprintf(all->at[all->n++], sizeof all->at[0], "%s", name);
}

static void test_every_function_is_called(void **state)
{
    static names called;
    api_world w = {0};
    char line[512];
    int missing = 0;
    int n = 0;
    (void)state;
    api_visitor v = {.w = &w, .wanted = -1, .null = -1, .seen = note_name, .user = &called};
    api_visit(&v);
    FILE *symbols = popen("nm -D --defined-only '" CKM_BINARY_DIR "/libcheckmate.so' 2>/dev/null", "r");
    assert_non_null(symbols);
    while (fgets(line, sizeof line, symbols) != NULL) {
        char kind;
        char symbol[256];
        if (sscanf(line, "%*s %c %255[^@\n]", &kind, symbol) != 2 || kind != 'T') {
            continue;
        }
        bool found = false;
        for (int i = 0; i < called.n; i++) {
            found = found || strcmp(called.at[i], symbol) == 0;
        }
        if (!found) {
            printf("%s is exported and not called here\n", symbol);
            missing++;
        }
        n++;
    }
    if (pclose(symbols) != 0 || n == 0) {
        print_message("SKIPPED in part: nm does not list the symbols of libcheckmate.so\n");
        return;
    }
    assert_true(n > 100);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_function_is_called),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
