// SPDX-License-Identifier: Apache-2.0
// A text that a network writes. Every token takes a pass forward over the last tokens, as many as the network reads; places that
// are not filled yet follow those that are, so that a causal network does not see them.
#include "cli/cli_generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_solve.h"

enum { BYTES_OF_TEXT = 256 };

// Uniform in [0, 1): Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators".
static double draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// The likeliest of the scores, or one drawn by exp(score / temperature).
static int choose(const float *scores, double temperature, uint64_t *state)
{
    double weights[BYTES_OF_TEXT];
    double sum = 0;
    int top = 0;
    for (int i = 1; i < BYTES_OF_TEXT; i++) {
        top = scores[i] > scores[top] ? i : top;
    }
    if (!(temperature > 0)) {
        return top;
    }
    for (int i = 0; i < BYTES_OF_TEXT; i++) {
        weights[i] = exp(((double)scores[i] - (double)scores[top]) / temperature);
        sum += weights[i];
    }
    double left = draw(state) * sum;
    for (int i = 0; i < BYTES_OF_TEXT; i++) {
        left -= weights[i];
        if (left < 0) {
            return i;
        }
    }
    return top;
}

static int64_t length_of(const ckm_session_tensor *input)
{
    return input->shape.rank == 2 && input->shape.dims[0] == 1 ? input->shape.dims[1] : 0;
}

static ckm_status check(const ckm_inference *f, ckm_error *err)
{
    ckm_session_tensor input = ckm_inference_input(f, 0);
    ckm_session_tensor output = ckm_inference_output(f, 0);
    int64_t n = length_of(&input);
    bool reads = ckm_inference_input_count(f) == 1 && n > 0 && (input.dtype == CKM_I32 || input.dtype == CKM_I64);
    if (!reads || output.dtype != CKM_F32) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL,
                         "--generate is for a network that reads tokens and scores the next one");
    }
    return output.bytes == n * BYTES_OF_TEXT * (int64_t)sizeof(float)
               ? CKM_OK
               : cli_error(err, CKM_ERR_ARGUMENT, NULL,
                           "--generate writes bytes, so the network must score %d tokens after each of the %lld that "
                           "it reads; one trained on a text does, with --weights or --vocabulary %d",
                           BYTES_OF_TEXT, (long long)n, BYTES_OF_TEXT);
}

int64_t cli_generate_bytes(const cli_generation *g, const ckm_graph *graph)
{
    int64_t tokens = 0;
    int64_t scores = 0;
    for (int32_t x = 0; x < ckm_graph_tensor_count(graph); x++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, x);
        int64_t n = 1;
        for (int32_t d = 0; d < t.shape.rank; d++) {
            n *= t.shape.dims[d];
        }
        tokens = t.role == CKM_ROLE_INPUT && tokens == 0 ? n : tokens;
        scores = t.role == CKM_ROLE_ACTIVATION ? n : scores;
    }
    return 2 * (int64_t)strlen(g->prompt) + 2 * g->tokens + tokens * (int64_t)sizeof(int64_t) +
           scores * (int64_t)sizeof(float);
}

typedef struct sample {
    unsigned char *text;
    int64_t n;      // bytes of it so far
    int64_t shown;  // on standard output
    void *tokens;   // of the network's input
    float *scores;
} sample;

// The last bytes of the text as tokens; 0 behind them. Gives the place of the last.
static int64_t fill(const sample *s, int64_t length, bool wide)
{
    int64_t used = s->n < length ? s->n : length;
    for (int64_t i = 0; i < length; i++) {
        int32_t token = i < used ? s->text[s->n - used + i] : 0;
        if (wide) {
            ((int64_t *)s->tokens)[i] = token;
        } else {
            ((int32_t *)s->tokens)[i] = token;
        }
    }
    return used - 1;
}

// Control characters do not reach a terminal.
static void show(sample *s, const char *output)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    if (strcmp(output, "-") != 0) {
        return;
    }
    for (; s->shown < s->n; s->shown++) {
        int c = s->text[s->shown];
        bool control = (c < 32 && c != '\n' && c != '\t') || c == 127;
        putchar(terminal && control ? '?' : c);
    }
    if (terminal) {
        fflush(stdout);
    }
}

static ckm_status write_on(cli_generation *g, ckm_inference *f, sample *s, const char *output, ckm_error *err)
{
    ckm_session_tensor input = ckm_inference_input(f, 0);
    ckm_session_tensor scored = ckm_inference_output(f, 0);
    int64_t length = length_of(&input);
    uint64_t state = g->seed;
    ckm_status status = CKM_OK;
    for (int64_t i = 0; status == CKM_OK && i < g->tokens; i++) {
        double seconds = 0;
        int64_t last = fill(s, length, input.dtype == CKM_I64);
        show(s, output);
        status = ckm_inference_set(f, input.name, input.dtype, &input.shape, s->tokens, err);
        if (status == CKM_OK) {
            status = ckm_inference_run(f, &seconds, err);
        }
        if (status == CKM_OK) {
            status = ckm_inference_get(f, 0, s->scores, scored.bytes, err);
        }
        if (status == CKM_OK) {
            s->text[s->n++] = (unsigned char)choose(s->scores + last * BYTES_OF_TEXT, g->temperature, &state);
        }
        g->seconds += seconds;
    }
    return status;
}

ckm_status cli_generate_run(cli_generation *g, ckm_inference *f, const char *output, ckm_error *err)
{
    ckm_status status = check(f, err);
    if (status != CKM_OK) {
        return status;
    }
    int64_t prompt = (int64_t)strlen(g->prompt);
    ckm_session_tensor input = ckm_inference_input(f, 0);
    sample s = {.n = prompt};
    s.text = calloc((size_t)(prompt + g->tokens), 1);
    s.tokens = malloc((size_t)input.bytes);
    s.scores = malloc((size_t)ckm_inference_output(f, 0).bytes);
    if (s.text == NULL || s.tokens == NULL || s.scores == NULL) {
        status = cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
        goto cleanup;
    }
    memcpy(s.text, g->prompt, (size_t)prompt);
    status = write_on(g, f, &s, output, err);
    if (status == CKM_OK && strcmp(output, "-") != 0) {
        status = ckm_file_replace(output, (const char *)s.text, (size_t)s.n, err);
    } else if (status == CKM_OK) {
        show(&s, output);
        if (s.n > 0 && s.text[s.n - 1] != '\n') {
            putchar('\n');
        }
    }
cleanup:
    free(s.text);
    free(s.tokens);
    free(s.scores);
    return status;
}
