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
const char *cli_read_budget(const char *text, cli_budget *out);
const char *cli_read_shape(const char *text, cli_shape *out);

// Bytes of a budget, rounded down. Percentages are of `whole`, or of what of it are activations, to which `standing` is added.
int64_t cli_budget_bytes(const cli_budget *budget, int64_t whole, int64_t standing);

// What stands for `number` in the library's options where 0 there means a default: 0 becomes CKM_NONE.
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
void cli_json_end(cli_json *json);

#endif
