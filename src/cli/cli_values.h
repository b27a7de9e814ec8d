// SPDX-License-Identifier: Apache-2.0
// Reading values that people write, and writing values that people read.
#ifndef CKM_SRC_CLI_CLI_VALUES_H
#define CKM_SRC_CLI_CLI_VALUES_H

#include "cli/cli.h"

// Each gives NULL, or what is wrong with the text, as the end of a sentence "--x ...".
const char *cli_read_integer(const char *text, int64_t *out);
const char *cli_read_real(const char *text, double *out);
const char *cli_read_fraction(const char *text, double *out);  // "0.01" or "1%"
const char *cli_read_bytes(const char *text, int64_t *out);
const char *cli_read_shape(const char *text, cli_shape *out);
// A plain decimal number, "12" or "12.5", at the start of the text; *rest is what follows.
bool cli_read_decimal(const char *text, long double *value, bool *is_whole, const char **rest);
// Rounds down, but not past a whole number that decimal fractions only just miss: 0.008 kB is 8 bytes.
long double cli_floor_decimal(long double value);

// `number` for the library's options where 0 means a default: 0 becomes CKM_NONE.
double cli_exactly(double number);

// Extra cost as a fraction of the baseline's; NaN when there is no cost (negative).
double cli_overhead(int64_t cost, int64_t baseline_cost);

// Short texts for people. All write to buf and return it.
const char *cli_show_bytes(int64_t bytes, char *buf, size_t size);                   // "16.00 GB"
const char *cli_show_cost(double cost, ckm_cost_unit unit, char *buf, size_t size);  // "1.23 TMACs", "12.3 ms"
const char *cli_show_percent(double fraction, char *buf, size_t size);               // "12.3 %", "-" for NaN
const char *cli_show_count(int64_t count, char *buf, size_t size);                   // "25,583,592"

// One JSON object on one line of standard output. NaN, NULL and negative sizes become null.
typedef struct cli_json {
    int n_members;
} cli_json;
void cli_json_begin(cli_json *json);
void cli_json_text(cli_json *json, const char *key, const char *value);
void cli_json_size(cli_json *json, const char *key, int64_t value);  // negative: null
void cli_json_real(cli_json *json, const char *key, double value);
void cli_json_sizes(cli_json *json, const char *key, const int64_t *values, int n);
void cli_json_bool(cli_json *json, const char *key, bool value);
// An object within the object; what is written until it is closed are its members.
void cli_json_open(cli_json *json, const char *key);
void cli_json_close(cli_json *json);
// A list of objects: each is begun as an item and closed as an object.
void cli_json_list(cli_json *json, const char *key);
void cli_json_item(cli_json *json);
void cli_json_list_close(cli_json *json);
void cli_json_end(cli_json *json);

#endif
