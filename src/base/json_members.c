// SPDX-License-Identifier: Apache-2.0
// The members of an object one by one. This only finds where each begins and ends; jansson parses its content and reports
// errors in it.
#include "base/json.h"
#include "base/json_load.h"

typedef struct scan {
    const char *text, *file;
    size_t at, size;
    ckm_error *err;
} scan;

static ckm_status broken(const scan *s, size_t at, const char *what)
{
    return ckm_i_error_at(s->err, CKM_ERR_FORMAT, s->file, 0, (int64_t)at, "not valid JSON: %s", what);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// The next character that is no space, or a zero byte at the end.
static char next(scan *s)
{
    while (s->at < s->size && is_space(s->text[s->at])) {
        s->at++;
    }
    return s->at < s->size ? s->text[s->at] : '\0';
}

// From a quotation mark to behind the one that ends the string.
static void skip_string(scan *s)
{
    for (s->at++; s->at < s->size && s->text[s->at] != '"'; s->at++) {
        s->at += s->text[s->at] == '\\';
    }
    s->at = s->at < s->size ? s->at + 1 : s->size;
}

// To behind a value. Only what is balanced matters: what is not JSON fails when it is read.
static void skip_value(scan *s)
{
    int64_t depth = 0;
    while (s->at < s->size) {
        char c = s->text[s->at];
        if (c == '"') {
            skip_string(s);
            if (depth == 0) {
                return;
            }
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}')) {
            return;
        }
        s->at++;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth == 0 && (c == '}' || c == ']')) {
            return;
        }
    }
}

static ckm_status parse(const scan *s, size_t begin, json_t **out)
{
    json_error_t problem;
    bool exhausted;
    *out = ckm_i_json_load(s->text + begin, s->at - begin, &problem, &exhausted);
    if (*out != NULL) {
        return CKM_OK;
    }
    if (exhausted) {
        return ckm_i_error_memory(s->err);
    }
    return broken(s, begin + (size_t)(problem.position > 0 ? problem.position : 0), problem.text);
}

// One member, from its key on.
static ckm_status member(scan *s, ckm_i_json_visit *visit, void *user)
{
    json_t *key = NULL;
    json_t *value = NULL;
    size_t begin = s->at;
    ckm_status status = CKM_OK;
    skip_string(s);
    CKM_I_TRY(parse(s, begin, &key));
    if (next(s) != ':') {
        status = broken(s, s->at, "':' expected");
        goto cleanup;
    }
    s->at++;
    (void)next(s);
    begin = s->at;
    skip_value(s);
    CKM_I_TRY(parse(s, begin, &value));
    CKM_I_TRY(visit(json_string_value(key), value, user, s->err));
cleanup:
    json_decref(value);
    json_decref(key);
    return status;
}

ckm_status ckm_i_json_members(const char *text, size_t size_bytes, const char *file, ckm_i_json_visit *visit,
                              void *user, ckm_error *err)
{
    scan s = {.text = text, .file = file, .size = size_bytes, .err = err};
    char c = next(&s);
    if (c != '{') {
        ckm_i_json_place root = ckm_i_json_root(file);
        return c == '[' ? ckm_i_json_error(err, &root, "must be an object") : broken(&s, s.at, "'{' expected");
    }
    s.at++;
    for (c = next(&s); c != '}'; c = next(&s)) {
        if (c != '"') {
            return broken(&s, s.at, "a member or '}' expected");
        }
        CKM_I_CHECK(member(&s, visit, user));
        c = next(&s);
        if (c == ',') {
            s.at++;
            if (next(&s) != '"') {
                return broken(&s, s.at, "a member expected");
            }
        } else if (c != '}') {
            return broken(&s, s.at, "',' or '}' expected");
        }
    }
    s.at++;
    (void)next(&s);
    return s.at == s.size ? CKM_OK : broken(&s, s.at, "end of file expected");
}
