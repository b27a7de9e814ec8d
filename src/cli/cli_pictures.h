// SPDX-License-Identifier: Apache-2.0
// checkmate run, on pictures: which there are, how they were prepared in training, and what the network says of them.
#ifndef CKM_SRC_CLI_CLI_PICTURES_H
#define CKM_SRC_CLI_CLI_PICTURES_H

#include "cli/cli.h"
#include "cli/cli_model.h"

// How pixels may be scaled, in the order of ckm_data_scaling; NULL ends them.
extern const char *const cli_pixel_scalings[];

typedef struct cli_pictures {
    char **paths;  // in the order of their names
    bool *bad;     // cannot be read: no row of the table
    int64_t n, cap, n_bad;
    int64_t others;      // pictures of kinds that are not read
    char other[256];     // the first of these
    int64_t decoding;    // bytes that the largest takes
    int64_t text_bytes;  // of all paths
    // What the file of weights says of training; 0 and NULL: nothing.
    int64_t classes;
    cli_shape input;  // height, width, channels
    int scaling;      // -1: not said
    char **names;     // of the classes
    int64_t n_names;
    // What came of them.
    int64_t right,
        judged;  // predictions that are the name of the picture's folder, where every folder is a class; judged 0: not
    double seconds;  // computing
} cli_pictures;

// A file, or a folder with those in it and below. Pictures whose header is damaged are named and marked; with `strict` they
// are an error.
ckm_status cli_pictures_find(const char *path, bool strict, cli_pictures *out, ckm_error *err) CKM_NODISCARD;
// What the file, of weights or an ONNX file, says of training; NULL: nothing.
ckm_status cli_pictures_read_notes(const char *path, cli_pictures *p, ckm_error *err) CKM_NODISCARD;
void cli_pictures_dispose(cli_pictures *pictures);
// Bytes that reading pictures into `graph` and writing `output` takes.
int64_t cli_pictures_bytes(const cli_pictures *pictures, const ckm_graph *graph, const char *output);
// Runs the network on all of them and writes `output`: a table (CSV) of the five likeliest classes or, where its name ends in
// .npy, the network's first output, a row a picture; "-" is standard output.
ckm_status cli_pictures_run(cli_pictures *pictures, ckm_inference *f, int64_t batch, ckm_data_scaling scaling,
                            bool strict, const char *output, ckm_error *err) CKM_NODISCARD;

#endif
