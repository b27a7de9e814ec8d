// SPDX-License-Identifier: Apache-2.0
// Fuzz target: training data as PNG and JPEG images and in CIFAR's files. The first byte chooses what the network takes,
// the second the kind of file; the rest is the file, or for PNG may say what to put into one. Check sums of PNG are put
// right, so that changed chunks get as far as the decoder.
#include <stdlib.h>
#include <string.h>

#include "support/data_read.h"
#include "support/scratch.h"

enum { MOST_FILE = 1 << 15, CIFAR_IMAGE = 3072 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t crc_of(const uint8_t *data, size_t n)
{
    uint32_t crc = 0xFFFFFFFFU;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0);
        }
    }
    return ~crc;
}

static void put_word(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

// Puts the check sum of every whole chunk right.
static void mend_png(uint8_t *file, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        size_t n = (size_t)file[at] << 24 | (size_t)file[at + 1] << 16 | (size_t)file[at + 2] << 8 | file[at + 3];
        if (n > size - at - 12) {
            return;
        }
        put_word(file + at + 8 + n, crc_of(file + at + 4, n + 4));
        at += n + 12;
    }
}

static size_t add_chunk(uint8_t *file, size_t at, const char *type, const uint8_t *data, size_t n)
{
    put_word(file + at, (uint32_t)n);
    memcpy(file + at + 4, type, 4);
    if (n > 0) {
        memcpy(file + at + 8, data, n);
    }
    return at + n + 12;
}

// A PNG of any colour type, depth and interlacing, its rows stored without compression. Returns its size.
static size_t build_png(data_bytes *b, uint8_t *file)
{
    static const uint8_t forms[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                       {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}, {2, 8}};
    static uint8_t rows[MOST_FILE / 2];
    uint8_t head[13] = {0};
    uint8_t palette[48];
    const uint8_t *form = forms[data_byte(b) % 16];
    uint8_t what = data_byte(b);
    uint32_t width = 1 + data_byte(b) % 20;
    uint32_t height = 1 + data_byte(b) % 20;
    put_word(head, width);
    put_word(head + 4, height);
    head[8] = form[1];
    head[9] = form[0];
    head[12] = what & 1;
    memcpy(file, "\x89PNG\r\n\x1a\n", 8);
    size_t at = add_chunk(file, 8, "IHDR", head, sizeof head);
    for (size_t i = 0; i < sizeof palette; i++) {
        palette[i] = data_byte(b);
    }
    if ((what & 2) != 0) {
        at = add_chunk(file, at, "gAMA", (const uint8_t[4]){0, 0, 177, 143}, 4);
    }
    if (form[0] == 3 || (what & 4) != 0) {
        at = add_chunk(file, at, "PLTE", palette, sizeof palette);
    }
    if ((what & 8) != 0) {
        at = add_chunk(file, at, "tRNS", palette, form[0] == 0 ? 2 : form[0] == 2 ? 6 : 5);
    }
    // More rows than there are for an image without interlacing, enough for one with it.
    static const int samples[] = {1, 0, 3, 1, 2, 0, 4};
    size_t bits = (size_t)samples[form[0]] * form[1];
    size_t n = 0;
    size_t wanted = (what & 1) != 0 ? (size_t)height * ((width * bits + 7) / 8 + 8) + 64
                                    : (size_t)height * ((width * bits + 7) / 8 + 1);
    wanted = wanted < sizeof rows ? wanted : sizeof rows;
    for (; n < wanted; n++) {
        rows[n] = (what & 1) == 0 && n % ((width * bits + 7) / 8 + 1) == 0 ? data_byte(b) % 5 : data_byte(b);
    }
    uint32_t a = 1;
    uint32_t c = 0;
    for (size_t i = 0; i < n; i++) {
        a = (a + rows[i]) % 65521;
        c = (c + a) % 65521;
    }
    static uint8_t packed[MOST_FILE / 2 + 16];
    memcpy(packed, (const uint8_t[7]){0x78, 1, 1, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n, (uint8_t)(~n >> 8)}, 7);
    memcpy(packed + 7, rows, n);
    put_word(packed + 7 + n, c << 16 | a);
    at = add_chunk(file, at, "IDAT", packed, n + 11);
    at = add_chunk(file, at, "IEND", NULL, 0);
    mend_png(file, at);
    return at;
}

// Records with sound labels before pixels from the bytes.
static size_t build_cifar(data_bytes *b, int labels, uint8_t *file)
{
    size_t at = 0;
    for (int k = 1 + data_byte(b) % 2; k > 0; k--) {
        for (int i = 0; i < labels; i++) {
            file[at++] = data_byte(b) % 12;
        }
        for (int i = 0; i < CIFAR_IMAGE; i++) {
            file[at++] = data_byte(b);
        }
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { PNG, JPEG, CIFAR10, CIFAR100, KINDS };
    static const char *const names[KINDS] = {"a/0.png", "a/0.jpg", "data_batch_1.bin", "train.bin"};
    static uint8_t file[MOST_FILE + 256];
    ckm_data_field field;
    ckm_data_options options;
    if (size < 2 || size > MOST_FILE) {
        return 0;
    }
    data_image_options(data[0], &field, &options);
    int kind = data[1] % KINDS;
    bool built = (data[1] & 64) != 0;
    bool second = (data[1] & 128) != 0;
    data_bytes b = {data + 2, data + size};
    size_t n = size - 2;
    if (built && kind == PNG) {
        n = build_png(&b, file);
    } else if (built && kind >= CIFAR10) {
        n = build_cifar(&b, kind == CIFAR10 ? 1 : 2, file);
    } else {
        memcpy(file, data + 2, n);
        if (kind == PNG && (data[1] & 32) != 0) {
            mend_png(file, n);
        }
    }
    const char *other = kind == CIFAR10 ? "data_batch_2.bin" : kind == PNG ? "b/1.PNG" : "b/1.jpeg";
    scratch_put(names[kind], file, n);
    if (second) {
        scratch_put(other, file, n);
    }
    data_open_and_read(&options);
    scratch_drop(names[kind]);
    if (second) {
        scratch_drop(other);
    }
    return 0;
}
