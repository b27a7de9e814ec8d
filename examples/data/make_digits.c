// SPDX-License-Identifier: Apache-2.0
// Writes a small data set of images: handwritten-looking digits in colours over blotchy backgrounds, as PNG files in one
// folder for every class, the form that `checkmate train --data` takes. The same arguments give the same images.
//
//   make_digits FOLDER [SAMPLES [SIDE]]      600 images of 32x32 pixels unless told otherwise
#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_SIDE 512

// Strokes of the digits: points in the unit square, x to the right and y downwards, ended by a negative x; a second
// stroke may follow.
static const float strokes[10][32] = {
    {.5F, .1F, .25F, .2F, .18F, .5F, .25F, .8F, .5F, .9F, .75F, .8F, .82F, .5F, .75F, .2F, .5F, .1F, -1, -1, -1, -1},
    {.35F, .28F, .55F, .1F, .55F, .9F, -1, -1, -1, -1},
    {.22F, .28F, .35F, .12F, .62F, .1F, .76F, .28F, .68F, .48F, .22F, .9F, .8F, .9F, -1, -1, -1, -1},
    {.24F, .16F, .55F, .1F, .75F, .26F, .5F, .46F, .78F, .66F, .6F, .9F, .22F, .84F, -1, -1, -1, -1},
    {.62F, .9F, .62F, .1F, .18F, .64F, .84F, .64F, -1, -1, -1, -1},
    {.76F, .1F, .3F, .1F, .26F, .46F, .56F, .42F, .78F, .62F, .62F, .88F, .22F, .86F, -1, -1, -1, -1},
    {.7F, .1F, .38F, .3F, .22F, .64F, .4F, .9F, .7F, .84F, .76F, .62F, .54F, .48F, .26F, .62F, -1, -1, -1, -1},
    {.2F, .1F, .8F, .1F, .44F, .9F, -1, -1, .34F, .5F, .7F, .5F, -1, -1, -1, -1},
    {.5F, .48F, .26F, .3F, .5F, .1F, .74F, .3F, .5F, .48F, .22F, .7F, .5F, .9F, .78F, .7F, .5F, .48F, -1, -1, -1, -1},
    {.74F, .38F, .48F, .52F, .26F, .34F, .4F, .12F, .7F, .14F, .74F, .38F, .66F, .9F, -1, -1, -1, -1},
};

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static float between(uint64_t *state, float low, float high)
{
    return low + (high - low) * (float)(next(state) >> 40) / 16777216.0F;
}

static float distance(float x, float y, const float *a, const float *b)
{
    float dx = b[0] - a[0];
    float dy = b[1] - a[1];
    float length = dx * dx + dy * dy;
    float t = length > 0 ? ((x - a[0]) * dx + (y - a[1]) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypotf(x - a[0] - t * dx, y - a[1] - t * dy);
}

// Distance to the nearest stroke of the digit.
static float distance_to(int digit, float x, float y)
{
    const float *p = strokes[digit];
    float nearest = 10;
    for (; p[0] >= 0; p += 2) {
        for (; p[2] >= 0; p += 2) {
            float d = distance(x, y, p, p + 2);
            nearest = d < nearest ? d : nearest;
        }
        p += 2;
    }
    return nearest;
}

static uint8_t level(float value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value + 0.5F);
}

static void paint(uint8_t *pixels, int side, int digit, uint64_t *state)
{
    float ink[3];
    float paper[3];
    float waves[4];
    float turn = between(state, -0.35F, 0.35F);
    float size = between(state, 0.75F, 1.1F);
    float slant = between(state, -0.25F, 0.25F);
    float left = between(state, -0.1F, 0.1F);
    float down = between(state, -0.1F, 0.1F);
    float pen = between(state, 0.04F, 0.09F);
    int dark = (next(state) & 1) != 0;
    for (int c = 0; c < 3; c++) {
        paper[c] = dark ? between(state, 10, 90) : between(state, 140, 230);
        ink[c] = dark ? between(state, 150, 250) : between(state, 0, 90);
    }
    for (int i = 0; i < 4; i++) {
        waves[i] = between(state, 2, 9);
    }
    for (int row = 0; row < side; row++) {
        for (int column = 0; column < side; column++) {
            float x = ((float)column + 0.5F) / (float)side - 0.5F + left;
            float y = ((float)row + 0.5F) / (float)side - 0.5F + down;
            float u = (x * cosf(turn) - y * sinf(turn)) / size;
            float v = (x * sinf(turn) + y * cosf(turn)) / size;
            float d = distance_to(digit, u + slant * v + 0.5F, v + 0.5F);
            float edge = 1.0F / (float)side;
            float cover = d < pen ? 1 : d > pen + edge ? 0 : (pen + edge - d) / edge;
            float blotch = 18 * sinf(waves[0] * x + waves[1]) * cosf(waves[2] * y + waves[3]);
            for (int c = 0; c < 3; c++) {
                float value = paper[c] + blotch + cover * (ink[c] - paper[c] - blotch);
                pixels[(row * side + column) * 3 + c] = level(value + between(state, -12, 12));
            }
        }
    }
}

static int write_png(const char *path, const uint8_t *pixels, int side)
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = (png_uint_32)side;
    image.height = (png_uint_32)side;
    image.format = PNG_FORMAT_RGB;
    if (!png_image_write_to_file(&image, path, 0, pixels, 0, NULL)) {
        fprintf(stderr, "make_digits: %s: %s\n", path, image.message);
        return 1;
    }
    return 0;
}

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "make_digits: %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t pixels[MAX_SIDE * MAX_SIDE * 3];
    char path[4096];
    int samples = argc > 2 ? atoi(argv[2]) : 600;
    int side = argc > 3 ? atoi(argv[3]) : 32;
    uint64_t state = 2024;
    if (argc < 2 || argc > 4 || samples < 1 || side < 8 || side > MAX_SIDE) {
        fprintf(stderr, "usage: make_digits FOLDER [SAMPLES [SIDE]]; SIDE from 8 to %d\n", MAX_SIDE);
        return 2;
    }
    if (make_folder(argv[1]) != 0) {
        return 1;
    }
    for (int i = 0; i < samples; i++) {
        int digit = i % 10;
        snprintf(path, sizeof path, "%.4000s/%d", argv[1], digit);
        if (make_folder(path) != 0) {
            return 1;
        }
        paint(pixels, side, digit, &state);
        snprintf(path, sizeof path, "%.4000s/%d/%05d.png", argv[1], digit, i);
        if (write_png(path, pixels, side) != 0) {
            return 1;
        }
    }
    printf("%d images of %dx%d pixels in %s\n", samples, side, side, argv[1]);
    return 0;
}
