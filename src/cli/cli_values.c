// SPDX-License-Identifier: Apache-2.0
// Sizes, numbers and shapes as people write them.
#include "cli/cli_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// strtold alone would also take "inf", "nan", hexadecimal and signs.
bool cli_read_decimal(const char *text, long double *value, bool *is_whole, const char **rest)
{
    size_t digits = strspn(text, "0123456789");
    size_t length = digits;
    if (text[length] == '.') {
        size_t fraction = strspn(text + length + 1, "0123456789");
        digits += fraction;
        length += 1 + fraction;
    }
    if (digits == 0 || length > 60) {
        return false;
    }
    char copy[64];
    memcpy(copy, text, length);
    copy[length] = '\0';
    *value = strtold(copy, NULL);
    *is_whole = strchr(copy, '.') == NULL;
    *rest = text + length;
    return true;
}

long double cli_floor_decimal(long double value)
{
    long double nearest = roundl(value);
    return fabsl(value - nearest) < 1e-6L ? nearest : floorl(value);
}

const char *cli_read_integer(const char *text, int64_t *out)
{
    char *end = NULL;
    if (text[0] == '\0' || strspn(text, "+-0123456789") != strlen(text)) {
        return "must be a whole number";
    }
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end != '\0') {
        return "must be a whole number";
    }
    if (errno == ERANGE) {
        return "is too large";
    }
    *out = value;
    return NULL;
}

const char *cli_read_real(const char *text, double *out)
{
    char *end = NULL;
    if (text[0] == '\0' || strspn(text, "+-.0123456789eE") != strlen(text)) {
        return "must be a number";
    }
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value)) {
        return "must be a number";
    }
    *out = value;
    return NULL;
}

const char *cli_read_fraction(const char *text, double *out)
{
    char copy[64];
    size_t length = strlen(text);
    double value = 0;
    bool is_percent = length > 0 && length < sizeof copy && text[length - 1] == '%';
    snprintf(copy, sizeof copy, "%s", text);
    if (is_percent) {
        copy[length - 1] = '\0';
    }
    if (length >= sizeof copy || cli_read_real(copy, &value) != NULL) {
        return "must be a number such as 0.01, or a percentage such as 1%";
    }
    *out = is_percent ? value / 100 : value;
    return NULL;
}

static const char size_hint[] = "must be a size: bytes, or a number with a unit such as 512MB or 4GiB "
                                "(M and MB are 10^6 bytes, MiB is 2^20)";

const char *cli_read_bytes(const char *text, int64_t *out)
{
    static const struct {
        const char *unit;
        long double bytes;
    } units[] = {
        {"B", 1},         {"kB", 1e3L},        {"MB", 1e6L},
        {"GB", 1e9L},     {"TB", 1e12L},       {"KiB", 1024},
        {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776.0L},
        {"k", 1e3L},      {"M", 1e6L},         {"G", 1e9L},
        {"T", 1e12L},
    };
    long double value = 0;
    bool is_whole = false;
    const char *rest = NULL;
    if (!cli_read_decimal(text, &value, &is_whole, &rest)) {
        return size_hint;
    }
    while (*rest == ' ') {
        rest++;
    }
    long double unit = *rest == '\0' && is_whole ? 1 : 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(rest, units[i].unit) == 0) {
            unit = units[i].bytes;
        }
    }
    if (unit == 0) {
        return size_hint;
    }
    long double bytes = cli_floor_decimal(value * unit);
    if (bytes >= 9223372036854775807.0L) {
        return "is too large: sizes are below 2^63 bytes";
    }
    *out = (int64_t)bytes;
    return NULL;
}

const char *cli_read_shape(const char *text, cli_shape *out)
{
    static const char hint[] = "must be positive numbers separated by commas, such as 224,224,3";
    cli_shape shape = {0, {0}};
    const char *at = text;
    for (;;) {
        char *end = NULL;
        if (*at < '0' || *at > '9') {
            return hint;
        }
        errno = 0;
        long long dim = strtoll(at, &end, 10);
        if (dim < 1 || errno == ERANGE) {
            return hint;
        }
        if (shape.rank == CKM_MAX_RANK - 1) {
            return "has too many dimensions";
        }
        shape.dims[shape.rank++] = dim;
        if (*end == '\0') {
            break;
        }
        if (*end != ',' && *end != 'x') {
            return hint;
        }
        at = end + 1;
    }
    *out = shape;
    return NULL;
}

double cli_exactly(double number)
{
    return number == 0 ? CKM_NONE : number;
}

double cli_overhead(int64_t cost, int64_t baseline_cost)
{
    if (cost < 0) {
        return NAN;
    }
    return baseline_cost > 0 ? (double)(cost - baseline_cost) / (double)baseline_cost : 0;
}

const char *cli_show_bytes(int64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    int unit = 0;
    while (fabs(value) >= 999.995 && unit < 6) {
        value /= 1000;
        unit++;
    }
    snprintf(buf, size, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return buf;
}

const char *cli_show_cost(double cost, ckm_cost_unit unit, char *buf, size_t size)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    static const char *const times[] = {"ns", "us", "ms", "s"};
    if (isnan(cost)) {
        snprintf(buf, size, "-");
        return buf;
    }
    bool is_time = unit != CKM_COST_FLOPS;
    int step = unit == CKM_COST_US ? 1 : 0;
    int last = is_time ? 3 : 6;
    while (fabs(cost) >= 999.9995 && step < last) {
        cost /= 1000;
        step++;
    }
    snprintf(buf, size, "%.*f %s%s", cost == floor(cost) && fabs(cost) < 1000 ? 0 : 3, cost,
             is_time ? times[step] : prefixes[step], is_time ? "" : "MACs");
    return buf;
}

const char *cli_show_percent(double fraction, char *buf, size_t size)
{
    if (isnan(fraction)) {
        snprintf(buf, size, "-");
    } else {
        double percent = fraction * 100;
        // Small overheads and gaps are the interesting ones: show them to two digits that count.
        int digits = percent == 0 || fabs(percent) >= 10 ? 1 : fabs(percent) >= 0.1 ? 2 : 4;
        snprintf(buf, size, "%.*f %%", digits, fabs(percent) < 5e-5 ? 0.0 : percent);
    }
    return buf;
}

const char *cli_show_count(int64_t count, char *buf, size_t size)
{
    char digits[32];
    char grouped[48];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)count);
    int out = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && digits[i - 1] != '-' && (n - i) % 3 == 0) {
            grouped[out++] = ',';
        }
        grouped[out++] = digits[i];
    }
    grouped[out] = '\0';
    snprintf(buf, size, "%s", grouped);
    return buf;
}
