// SPDX-License-Identifier: Apache-2.0
// How training went, from its log: loss over steps with that of validation, and below it the accuracy.
#include <checkmate/emit.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "emit/emit_style.h"

// More steps than this share a point, their mean; longer names of logs are cut; steps of which a double knows every one.
enum { COLUMNS = 600, NAME_LENGTH = 60 };
static const int64_t most_steps = INT64_C(1) << 53;
static const int64_t most_bytes = INT64_C(1) << 31;  // of a log: some ten million steps

// A line of the log. Those of one kind are in the order of steps.
typedef struct record {
    bool validated;
    int64_t step, epoch;  // from 0
    double loss, mean_loss, accuracy, bits_per_byte;
} record;

typedef struct course {
    const char *title;
    record *records;
    int64_t n, room;
    const record *best;  // the least validation loss; NULL for none
} course;

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

// What a run that was killed had done after it saved last is done again by the one that goes on from there, which adds to
// the same log: the later line counts.
static void drop_repeated(course *c, const record *next)
{
    while (c->n > 0 &&
           (c->records[c->n - 1].step > next->step ||
            (c->records[c->n - 1].step == next->step && (c->records[c->n - 1].validated || !next->validated)))) {
        c->n--;
    }
}

static ckm_status add_record(course *c, const json_t *object, const ckm_i_json_place *place, ckm_error *err)
{
    record next = {.validated = json_object_get(object, "validation_loss") != NULL};
    CKM_I_CHECK(ckm_i_json_get_int(object, place, "step", true, 0, most_steps, &next.step, err));
    CKM_I_CHECK(ckm_i_json_get_int(object, place, "epoch", true, 0, INT64_MAX, &next.epoch, err));
    next.loss = real_of(object, next.validated ? "validation_loss" : "loss");
    next.mean_loss = real_of(object, "mean_loss");
    next.accuracy = real_of(object, next.validated ? "validation_accuracy" : "accuracy");
    next.bits_per_byte = real_of(object, next.validated ? "validation_bits_per_byte" : "bits_per_byte");
    drop_repeated(c, &next);
    if (c->n == c->room) {
        int64_t room = 2 * c->room + 256;
        record *more = realloc(c->records, (size_t)room * sizeof *more);
        if (more == NULL) {
            return ckm_i_error_memory(err);
        }
        c->records = more;
        c->room = room;
    }
    c->records[c->n++] = next;
    return CKM_OK;
}

// The line that begins at `text` and ends before `end`. A log grows while it is read: of the last line there may be a
// part, which says nothing yet.
static ckm_status read_line(course *c, const char *path, int64_t number, const char *text, const char *end, bool whole,
                            ckm_error *err)
{
    json_t *object = NULL;
    ckm_i_json_place place = ckm_i_json_root(path);
    ckm_error problem = CKM_ERROR_INIT;
    ckm_status status = ckm_i_json_parse(text, (size_t)(end - text), path, &object, &problem);
    if (status == CKM_ERR_FORMAT || (status == CKM_OK && !json_is_object(object))) {
        status = ckm_i_error_at(&problem, CKM_ERR_FORMAT, path, number, -1,
                                "not a JSON object; a log of training has one a line");
    }
    if (status == CKM_OK) {
        status = add_record(c, object, &place, &problem);
        problem.line = number;
    }
    json_decref(object);
    if (status == CKM_ERR_FORMAT && !whole && c->n > 0) {
        return CKM_OK;
    }
    if (status != CKM_OK && err != NULL) {
        *err = problem;
    }
    return status;
}

static ckm_status read_log(course *c, const char *path, ckm_error *err)
{
    char *data = NULL;
    size_t size = 0;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(ckm_i_file_read(path, most_bytes, &data, &size, err));
    const char *line = data;
    for (int64_t number = 1; line < data + size; number++) {
        const char *newline = memchr(line, '\n', (size_t)(data + size - line));
        const char *end = newline != NULL ? newline : data + size;
        const char *next = end + 1;
        end -= end > line && end[-1] == '\r';
        if (end > line) {
            CKM_I_TRY(read_line(c, path, number, line, end, newline != NULL, err));
        }
        line = next;
    }
cleanup:
    free(data);
    return status;
}

// The record of the least validation loss; NULL for none.
static const record *best_of(const course *c)
{
    const record *best = NULL;
    for (int64_t i = 0; i < c->n; i++) {
        const record *r = &c->records[i];
        best = r->validated && isfinite(r->loss) && (best == NULL || r->loss < best->loss) ? r : best;
    }
    return best;
}

// ---- drawing ----

typedef double value_fn(const record *r);

static double loss_of(const record *r)
{
    return r->loss;
}

static double mean_loss_of(const record *r)
{
    return r->mean_loss;
}

static double percent_of(const record *r)
{
    return 100 * r->accuracy;
}

static bool has(const course *c, value_fn *value, bool validated)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (c->records[i].validated == validated && isfinite(value(&c->records[i]))) {
            return true;
        }
    }
    return false;
}

// Steps in the axes count from 1, as the progress line's do.
static void put_points(FILE *to, const course *c, const char *name, value_fn *value, bool validated)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n; i++) {
        n += c->records[i].validated == validated;
    }
    int64_t width = validated ? 1 : (n + COLUMNS - 1) / COLUMNS;
    double sum = 0;  // of losses that are numbers
    int64_t in = 0;
    int64_t numbers = 0;
    int64_t seen = 0;
    fprintf(to, "$%s << END_OF_CURVE\n", name);
    for (int64_t i = 0; i < c->n; i++) {
        const record *r = &c->records[i];
        if (r->validated != validated) {
            continue;
        }
        if (isfinite(value(r))) {
            sum += value(r);
            numbers++;
        }
        in++;
        seen++;
        if (in == width || seen == n) {
            if (numbers > 0) {
                fprintf(to, "%" PRId64 " %.8g\n", r->step + 1, sum / (double)numbers);
            } else {
                fputc('\n', to);  // an empty line interrupts the line
            }
            sum = 0;
            in = 0;
            numbers = 0;
        }
    }
    fputs("END_OF_CURVE\n", to);
}

// Of every epoch what the log says at its last step, where loss and accuracy are means over the epoch.
static void put_epochs(FILE *to, const course *c, const char *name, value_fn *value)
{
    fprintf(to, "$%s << END_OF_CURVE\n", name);
    const record *last = NULL;
    for (int64_t i = 0; i <= c->n; i++) {
        const record *r = i < c->n ? &c->records[i] : NULL;
        if (r != NULL && r->validated) {
            continue;
        }
        if (last != NULL && (r == NULL || r->epoch != last->epoch) && isfinite(value(last))) {
            fprintf(to, "%" PRId64 " %.8g\n", last->step + 1, value(last));
        }
        last = r;
    }
    fputs("END_OF_CURVE\n", to);
}

static int64_t epoch_count(const course *c)
{
    int64_t n = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < c->n; i++) {
        n += c->records[i].epoch != last;
        last = c->records[i].epoch;
    }
    return n;
}

// "training 1.1871 in the last epoch", "validation 1.2034, 1.736 bits a byte; least 1.1998 after step 2000"
static void say_result(const course *c, char *training, char *validation, size_t size)
{
    const record *last = NULL;
    const record *judged = NULL;
    char accuracy[32] = "";
    char bits[48] = "";
    char least[96] = "";
    for (int64_t i = 0; i < c->n; i++) {
        last = !c->records[i].validated && isfinite(c->records[i].mean_loss) ? &c->records[i] : last;
        judged = c->records[i].validated && isfinite(c->records[i].loss) ? &c->records[i] : judged;
    }
    if (last != NULL) {
        snprintf(training, size, "training %.5g in the last epoch", last->mean_loss);
    }
    if (judged == NULL) {
        return;
    }
    if (isfinite(judged->accuracy)) {
        snprintf(accuracy, sizeof accuracy, ", accuracy %.1f %%", 100 * judged->accuracy);
    }
    if (isfinite(judged->bits_per_byte)) {
        snprintf(bits, sizeof bits, ", %.3f bits a byte", judged->bits_per_byte);
    }
    if (c->best != NULL && c->best != judged) {
        snprintf(least, sizeof least, "; least %.5g after step %" PRId64, c->best->loss, c->best->step + 1);
    }
    snprintf(validation, size, "validation %.5g%s%s%s", judged->loss, accuracy, bits, least);
}

static void put_loss(FILE *to, const course *c)
{
    const char *separator = "plot ";
    if (has(c, loss_of, false)) {
        fprintf(to, "%s$loss using 1:2 with linespoints lw 1.2 pt 7 ps 0.25 lc rgb '%s' title 'training, by steps'",
                separator, CKM_I_SKY);
        separator = ", ";
        if (epoch_count(c) > 1) {
            fprintf(to, "%s$epochs using 1:2 with lines lw 2.2 lc rgb '%s' title 'training, mean of each epoch'",
                    separator, CKM_I_BLUE);
        }
    }
    if (has(c, loss_of, true)) {
        fprintf(to,
                "%s$judged using 1:2 with linespoints lw 2.2 pt 7 ps 0.5 lc rgb '%s' title 'validation', $best "
                "using 1:2 with points lw 1.6 pt 6 ps 1.3 lc rgb '#000000' title 'least of validation'",
                separator, CKM_I_VERMILION);
    }
    fputc('\n', to);
}

static void put_accuracy(FILE *to, const course *c)
{
    const char *separator = "plot ";
    if (has(c, percent_of, false)) {
        fprintf(to, "%s$accuracy using 1:2 with lines lw 1.6 lc rgb '%s' notitle", separator, CKM_I_BLUE);
        separator = ", ";
    }
    if (has(c, percent_of, true)) {
        fprintf(to, "%s$judged_accuracy using 1:2 with linespoints lw 2.2 pt 7 ps 0.5 lc rgb '%s' notitle", separator,
                CKM_I_VERMILION);
    }
    fputc('\n', to);
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    const course *c = what;
    char training[160] = "";
    char validation[256] = "";
    bool accurate = has(c, percent_of, false) || has(c, percent_of, true);
    ckm_i_style_begin(to, format, 900, accurate ? 680 : 520);
    put_points(to, c, "loss", loss_of, false);
    put_points(to, c, "judged", loss_of, true);
    put_points(to, c, "judged_accuracy", percent_of, true);
    put_epochs(to, c, "epochs", mean_loss_of);
    if (epoch_count(c) > 1) {
        put_epochs(to, c, "accuracy", percent_of);
    } else {
        put_points(to, c, "accuracy", percent_of, false);
    }
    if (c->best != NULL) {
        fprintf(to, "$best << END_OF_CURVE\n%" PRId64 " %.8g\nEND_OF_CURVE\n", c->best->step + 1, c->best->loss);
    }
    say_result(c, training, validation, sizeof training);
    ckm_i_style_title(to, c->title, training);
    ckm_i_style_label(to, 0.02, 0.872, validation, "left tc rgb '#555555'");
    fprintf(to,
            "set multiplot\nset lmargin at screen 0.095\nset rmargin at screen 0.955\nset tmargin at screen 0.765\n"
            "set bmargin at screen %s\nset xrange [0:%" PRId64 "]\nset offsets 0, 0, graph 0.05, 0\n"
            "set key at screen 0.02, screen 0.845 left top horizontal Left reverse samplen 2 width 1 noenhanced\nset "
            "ylabel 'loss'\n",
            accurate ? "0.40" : "0.11", c->records[c->n - 1].step + 1);
    fputs(accurate ? "set format x ''\n" : "set xlabel 'step'\n", to);
    put_loss(to, c);
    if (accurate) {
        fputs("unset label\nset tmargin at screen 0.36\nset bmargin at screen 0.09\nset format x '%g'\nset xlabel "
              "'step'\nset offsets 0, 0, 0, 0\nset yrange [0:100]\nset ylabel 'accuracy (%)'\n",
              to);
        put_accuracy(to, c);
    }
    fputs("unset multiplot\n", to);
}

ckm_status ckm_emit_training_figure(const char *log, const char *path, ckm_error *err)
{
    CKM_I_NEED(log, err);
    CKM_I_NEED(path, err);
    const char *slash = strrchr(log, '/');
    char name[4 * NAME_LENGTH + 4];
    char title[sizeof name + 64];
    course c = {.title = title};
    snprintf(title, sizeof title, "%s: loss over the steps of training",
             ckm_i_style_short(slash != NULL ? slash + 1 : log, NAME_LENGTH, name));
    ckm_status status = CKM_OK;
    CKM_I_TRY(read_log(&c, log, err));
    if (!has(&c, loss_of, false) && !has(&c, loss_of, true)) {
        status = ckm_i_error_at(err, CKM_ERR_ARGUMENT, log, 0, -1,
                                "nothing to draw: no line has a loss that is a number");
        goto cleanup;
    }
    c.best = best_of(&c);
    CKM_I_TRY(ckm_i_style_gnuplot(put_script, &c, path, err));
cleanup:
    free(c.records);
    return status;
}
