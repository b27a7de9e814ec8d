// SPDX-License-Identifier: Apache-2.0
// jansson collects a token byte by byte in a buffer that doubles, and does not look whether that succeeded: when one
// allocation fails, a byte of the token is lost, and a number or a name silently becomes another. So the text is
// handed over as the second element of an array whose first is a string as long as the longest token: the buffer has
// grown once and for all before the text begins, and the string's length tells whether it could.
//
// It also asks for the locale's decimal point, takes it to be one byte, and ends the process where it is not: reading is done
// in C's locale.
//
// Every other failed allocation ends the parsing at once, often as an error of syntax. malloc has set errno then, and
// nothing on the way out changes it.
#include "base/json_load.h"

#include <errno.h>
#include <string.h>

#include "base/plain.h"

// Length of the longest string or number, quotes included; what is not JSON may count as either.
static size_t longest_token(const char *text, size_t size)
{
    static const char separators[] = {',', ':', '[', ']', '{', '}', ' ', '\t', '\r', '\n'};
    size_t longest = 0;
    for (size_t i = 0; i < size;) {
        size_t begin = i;
        if (text[i] == '"') {
            i++;
            while (i < size && text[i] != '"') {
                i += text[i] == '\\' ? 2 : 1;
            }
            i++;
        } else {
            while (i < size && text[i] != '"' && memchr(separators, text[i], sizeof separators) == NULL) {
                i++;
            }
            i += i == begin;
        }
        longest = i - begin > longest ? i - begin : longest;
    }
    return longest;
}

// The text as it is fed to jansson: ["xxx...x", text].
typedef struct feed {
    const char *text;
    size_t size, padding, position;
} feed;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t give(void *buffer, size_t room, void *user)
{
    feed *f = user;
    char *to = buffer;
    size_t n = 0;
    while (n < room) {
        size_t at = f->position;
        size_t text_begins = 2 + f->padding + 2;
        size_t took = 1;
        if (at < 2) {
            to[n] = "[\""[at];
        } else if (at < 2 + f->padding) {
            took = least(room - n, 2 + f->padding - at);
            memset(to + n, 'x', took);
        } else if (at < text_begins) {
            to[n] = "\","[at - 2 - f->padding];
        } else if (at < text_begins + f->size) {
            took = least(room - n, text_begins + f->size - at);
            memcpy(to + n, f->text + (at - text_begins), took);
        } else if (at == text_begins + f->size) {
            to[n] = ']';
        } else {
            break;
        }
        f->position += took;
        n += took;
    }
    return n;
}

static bool out_of_memory(const json_t *value, const json_error_t *problem)
{
    return value == NULL && (errno == ENOMEM || json_error_code(problem) == json_error_out_of_memory);
}

static json_t *load(const char *text, size_t size_bytes, json_error_t *problem, bool *exhausted)
{
    // A number is in the buffer together with the byte behind it. The buffer doubles from 16 bytes; were it to grow for the
    // very quotation mark that ends the string, and could not, jansson would look for its end beyond the buffer. So
    // the string ends well behind a power of two.
    size_t longest = longest_token(text, size_bytes) + 8;
    feed f = {.text = text, .size = size_bytes, .padding = 32};
    while (f.padding < longest) {
        f.padding *= 2;
    }
    f.padding += 8;
    errno = 0;
    json_t *array = json_load_callback(give, &f, JSON_REJECT_DUPLICATES, problem);
    json_t *root = NULL;
    *exhausted = out_of_memory(array, problem) ||
                 (array != NULL && json_string_length(json_array_get(array, 0)) != f.padding);
    if (!*exhausted && json_array_size(array) == 2) {
        root = json_incref(json_array_get(array, 1));
    }
    json_decref(array);
    if (root == NULL && !*exhausted) {
        // Bad syntax, or `1, 2`: parse the original, for a message with its positions. (It may even be valid:
        // nested as deeply as jansson allows.)
        errno = 0;
        root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, problem);
        *exhausted = out_of_memory(root, problem);
    }
    return root;
}

json_t *ckm_i_json_load(const char *text, size_t size_bytes, json_error_t *problem, bool *exhausted)
{
    ckm_i_plain plain;
    *exhausted = ckm_i_plain_begin(&plain, NULL) != CKM_OK;
    if (*exhausted) {
        return NULL;
    }
    json_t *root = load(text, size_bytes, problem, exhausted);
    ckm_i_plain_end(&plain);
    return root;
}
