// SPDX-License-Identifier: Apache-2.0
// A text that a network writes. Every token takes a pass forward over the last tokens, as many as the network reads; places that
// are not filled yet follow those that are, so that a causal network does not see them.
#include "cli/cli_generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_solve.h"

enum { BYTES_OF_TEXT = 256, HEADER = 128 };

// Uniform in [0, 1): Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators".
static double draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// The likeliest of the scores, or one drawn by exp(score / temperature).
static int32_t choose(const float *scores, int32_t n, double temperature, uint64_t *state)
{
    double sum = 0;
    int32_t top = 0;
    for (int32_t i = 1; i < n; i++) {
        top = scores[i] > scores[top] ? i : top;
    }
    if (!(temperature > 0)) {
        return top;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += exp(((double)scores[i] - (double)scores[top]) / temperature);
    }
    double left = draw(state) * sum;
    for (int32_t i = 0; i < n; i++) {
        left -= exp(((double)scores[i] - (double)scores[top]) / temperature);
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

// The size of the network's vocabulary, in *n.
static ckm_status check(const cli_generation *g, const ckm_inference *f, int32_t *n, ckm_error *err)
{
    ckm_session_tensor input = ckm_inference_input(f, 0);
    ckm_session_tensor output = ckm_inference_output(f, 0);
    int64_t length = length_of(&input);
    bool reads = ckm_inference_input_count(f) == 1 && length > 0 && (input.dtype == CKM_I32 || input.dtype == CKM_I64);
    int64_t vocabulary = reads ? output.bytes / (length * (int64_t)sizeof(float)) : 0;
    if (!reads || output.dtype != CKM_F32 || vocabulary < 1 || vocabulary > INT32_MAX ||
        output.bytes != length * vocabulary * (int64_t)sizeof(float)) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL,
                         "--generate is for a network that reads tokens and scores the next one");
    }
    *n = (int32_t)vocabulary;
    return vocabulary == BYTES_OF_TEXT || g->prompt_tokens != NULL
               ? CKM_OK
               : cli_error(err, CKM_ERR_ARGUMENT, NULL,
                           "--generate writes bytes, so the network must score %d tokens after each of the %lld that "
                           "it reads; one trained on a text does, with --weights or --vocabulary %d. Tokens of a "
                           "tokenizer continue --prompt-tokens FILE",
                           BYTES_OF_TEXT, (long long)length, BYTES_OF_TEXT);
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
    int64_t prompt = (int64_t)strlen(g->prompt);
    if (g->prompt_tokens != NULL && ckm_data_read_tokens(g->prompt_tokens, NULL, 0, &prompt, NULL) != CKM_OK) {
        prompt = 0;  // errors are reported when they are read
    }
    return (prompt + g->tokens) * (int64_t)(sizeof(int32_t) + 1) + HEADER + tokens * (int64_t)sizeof(int64_t) +
           scores * (int64_t)sizeof(float);
}

typedef struct sample {
    int32_t *text;
    int64_t n;       // tokens of it so far
    int64_t shown;   // on standard output
    int32_t scored;  // size of the network's vocabulary
    void *tokens;    // of the network's input
    float *scores;
} sample;

// The last tokens of the text; 0 behind them. Gives the place of the last.
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
static void show(sample *s, const cli_generation *g, const char *output)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    if (strcmp(output, "-") != 0) {
        return;
    }
    for (; s->shown < s->n; s->shown++) {
        if (g->prompt_tokens != NULL) {
            printf("%s%d", s->shown > 0 ? " " : "", (int)s->text[s->shown]);
            continue;
        }
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
        show(s, g, output);
        status = ckm_inference_set(f, input.name, input.dtype, &input.shape, s->tokens, err);
        if (status == CKM_OK) {
            status = ckm_inference_run(f, &seconds, err);
        }
        if (status == CKM_OK) {
            status = ckm_inference_get(f, 0, s->scores, scored.bytes, err);
        }
        if (status == CKM_OK) {
            s->text[s->n++] = choose(s->scores + last * s->scored, s->scored, g->temperature, &state);
        }
        g->seconds += seconds;
    }
    return status;
}

// Of an array of `n` 32-bit integers: version 1.0, and how many bytes follow.
static void write_header(unsigned char *bytes, int64_t n)
{
    enum { BEGIN = 10 };
    char text[HEADER + 1];
    int length = snprintf(text, sizeof text, "\x93NUMPY\x01%c%c%c%s%lld%s", ' ', ' ', ' ',
                          "{'descr': '<i4', 'fortran_order': False, 'shape': (", (long long)n, ",), }");
    for (int i = 0; i < HEADER; i++) {
        bytes[i] = i < length ? (unsigned char)text[i] : ' ';
    }
    bytes[BEGIN - 3] = 0;
    bytes[BEGIN - 2] = HEADER - BEGIN;
    bytes[BEGIN - 1] = 0;
    bytes[HEADER - 1] = '\n';
}

// Bytes, or an array of tokens.
static ckm_status write_file(const sample *s, const cli_generation *g, const char *path, ckm_error *err)
{
    size_t begin = g->prompt_tokens != NULL ? HEADER : 0;
    size_t each = g->prompt_tokens != NULL ? sizeof(int32_t) : 1;
    unsigned char *bytes = malloc(begin + (size_t)s->n * each);
    if (bytes == NULL) {
        return cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
    }
    if (g->prompt_tokens != NULL) {
        write_header(bytes, s->n);
    }
    for (int64_t i = 0; i < s->n; i++) {
        for (size_t b = 0; b < each; b++) {
            bytes[begin + (size_t)i * each + b] = (unsigned char)((uint32_t)s->text[i] >> (8 * b) & 255);
        }
    }
    ckm_status status = ckm_file_replace(path, (const char *)bytes, begin + (size_t)s->n * each, err);
    free(bytes);
    return status;
}

// Reads the tokens to continue.
static ckm_status count_prompt(const cli_generation *g, int64_t *n, ckm_error *err)
{
    *n = (int64_t)strlen(g->prompt);
    ckm_status status = g->prompt_tokens != NULL ? ckm_data_read_tokens(g->prompt_tokens, NULL, 0, n, err) : CKM_OK;
    return status == CKM_OK && *n == 0
               ? cli_error(err, CKM_ERR_ARGUMENT, g->prompt_tokens, "is empty: give at least one token to continue")
               : status;
}

static ckm_status read_prompt(const cli_generation *g, int32_t scored, int32_t *text, int64_t n, ckm_error *err)
{
    int64_t read = 0;
    ckm_status status = CKM_OK;
    for (int64_t i = 0; i < n && g->prompt_tokens == NULL; i++) {
        text[i] = (unsigned char)g->prompt[i];
    }
    if (g->prompt_tokens != NULL) {
        status = ckm_data_read_tokens(g->prompt_tokens, text, n, &read, err);
    }
    for (int64_t i = 0; i < n && status == CKM_OK; i++) {
        if (text[i] >= scored) {
            status = cli_error(err, CKM_ERR_ARGUMENT, g->prompt_tokens,
                               "has token %d, and the network's vocabulary has %d", (int)text[i], (int)scored);
        }
    }
    return status;
}

ckm_status cli_generate_run(cli_generation *g, ckm_inference *f, const char *output, ckm_error *err)
{
    int64_t prompt = 0;
    sample s = {.n = 0};
    ckm_session_tensor input = ckm_inference_input(f, 0);
    ckm_status status = check(g, f, &s.scored, err);
    if (status == CKM_OK) {
        status = count_prompt(g, &prompt, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    s.text = calloc((size_t)(prompt + g->tokens), sizeof *s.text);
    s.tokens = malloc((size_t)input.bytes);
    s.scores = malloc((size_t)ckm_inference_output(f, 0).bytes);
    if (s.text == NULL || s.tokens == NULL || s.scores == NULL) {
        status = cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
        goto cleanup;
    }
    s.n = prompt;
    status = read_prompt(g, s.scored, s.text, prompt, err);
    if (status == CKM_OK) {
        status = write_on(g, f, &s, output, err);
    }
    if (status == CKM_OK && strcmp(output, "-") != 0) {
        status = write_file(&s, g, output, err);
    } else if (status == CKM_OK) {
        show(&s, g, output);
        if (g->prompt_tokens != NULL || s.text[s.n - 1] != '\n') {
            putchar('\n');
        }
    }
cleanup:
    free(s.text);
    free(s.tokens);
    free(s.scores);
    return status;
}
