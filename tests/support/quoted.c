// SPDX-License-Identifier: Apache-2.0
#include "quoted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *quoted(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    for (size_t i = 0; i <= n; i++) {
        copy[i] = text[i] == '\'' ? '"' : text[i];
    }
    return copy;
}

ckm_dataflow *quoted_graph(const char *text, ckm_error *err)
{
    ckm_dataflow *df = NULL;
    char *json = quoted(text);
    ckm_status status = ckm_dataflow_parse(json, strlen(json), "test.json", &df, err);
    free(json);
    assert_true((status == CKM_OK) == (df != NULL));
    return df;
}

ckm_schedule *quoted_schedule(const char *text, ckm_error *err)
{
    ckm_schedule *s = NULL;
    char *json = quoted(text);
    ckm_status status = ckm_schedule_parse(json, strlen(json), "test.json", &s, err);
    free(json);
    assert_true((status == CKM_OK) == (s != NULL));
    return s;
}

static char *wrap(const char *before, const char *inside, const char *after)
{
    size_t room = strlen(before) + strlen(inside) + strlen(after) + 1;
    char *text = malloc(room);
    assert_non_null(text);
    snprintf(text, room, "%s%s%s", before, inside, after);
    return text;
}

ckm_dataflow *quoted_graph_of(const char *members)
{
    ckm_error err = CKM_ERROR_INIT;
    char *text = wrap("{'format': 'checkmate-graph', 'version': 1, ", members, "}");
    ckm_dataflow *df = quoted_graph(text, &err);
    free(text);
    if (df == NULL) {
        fail_msg("%s", err.message);
    }
    return df;
}

ckm_schedule *quoted_schedule_of(const char *steps)
{
    ckm_error err = CKM_ERROR_INIT;
    char *text = wrap("{'format': 'checkmate-schedule', 'version': 1, 'steps': [", steps, "]}");
    ckm_schedule *s = quoted_schedule(text, &err);
    free(text);
    if (s == NULL) {
        fail_msg("%s", err.message);
    }
    return s;
}

void assert_error(const ckm_error *err, ckm_status code, const char *fragment)
{
    if (err->code != code || strstr(err->message, fragment) == NULL) {
        fail_msg("expected %s with \"%s\", got %s: %s", ckm_status_name(code), fragment, ckm_status_name(err->code),
                 err->message);
    }
    assert_null(strchr(err->message, '\n'));
}
