// SPDX-License-Identifier: Apache-2.0
// Changes of inputs that keep them whole where bytes changed at random would not: models stay messages, JSON stays JSON.
// A target hands its LLVMFuzzerCustomMutator on to one of these.
#ifndef CKM_TESTS_FUZZ_MUTATE_H
#define CKM_TESTS_FUZZ_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// libFuzzer's own changes; in a replay there are none.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

// A number below n.
uint32_t mutate_pick(uint64_t *state, uint32_t n);
// Numbers at which readers go wrong: zero, signs, powers of two and their neighbours.
int64_t mutate_integer(uint64_t *state);

// JSON text. `words` are names and values of the format, ended by NULL. False when it is none, or would be too large.
bool mutate_json(uint8_t *data, size_t *size, size_t max_size, const char *const *words, uint64_t *state);
// The whole of a custom mutator for a file of JSON.
size_t mutate_json_file(uint8_t *data, size_t size, size_t max_size, const char *const *words, unsigned seed);

// The whole of a custom mutator for `prefix` bytes followed by an ONNX model: a model made up anew, one part of the
// model changed, or plain bytes.
size_t mutate_onnx(uint8_t *data, size_t size, size_t max_size, size_t prefix, unsigned seed);

#endif
