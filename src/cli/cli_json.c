// SPDX-License-Identifier: Apache-2.0
// Writing one JSON object.
#include "cli/cli_values.h"

static void print_key(cli_json *json, const char *key)
{
    printf("%s\"%s\": ", json->n_members > 0 ? ", " : "", key);
    json->n_members++;
}

void cli_json_begin(cli_json *json)
{
    json->n_members = 0;
    putchar('{');
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    print_key(json, key);
    ckm_json_write_text(stdout, value);
}

void cli_json_size(cli_json *json, const char *key, int64_t value)
{
    print_key(json, key);
    if (value < 0) {
        fputs("null", stdout);
    } else {
        printf("%lld", (long long)value);
    }
}

void cli_json_real(cli_json *json, const char *key, double value)
{
    print_key(json, key);
    ckm_json_write_number(stdout, value);
}

void cli_json_sizes(cli_json *json, const char *key, const int64_t *values, int n)
{
    print_key(json, key);
    putchar('[');
    for (int i = 0; i < n; i++) {
        printf("%s%lld", i > 0 ? ", " : "", (long long)values[i]);
    }
    putchar(']');
}

void cli_json_bool(cli_json *json, const char *key, bool value)
{
    print_key(json, key);
    fputs(value ? "true" : "false", stdout);
}

void cli_json_open(cli_json *json, const char *key)
{
    print_key(json, key);
    putchar('{');
    json->n_members = 0;
}

void cli_json_close(cli_json *json)
{
    putchar('}');
    json->n_members = 1;
}

void cli_json_list(cli_json *json, const char *key)
{
    print_key(json, key);
    putchar('[');
    json->n_members = 0;
}

void cli_json_item(cli_json *json)
{
    fputs(json->n_members > 0 ? ", {" : "{", stdout);
    json->n_members = 0;
}

void cli_json_list_close(cli_json *json)
{
    putchar(']');
    json->n_members = 1;
}

void cli_json_end(cli_json *json)
{
    (void)json;
    fputs("}\n", stdout);
}
