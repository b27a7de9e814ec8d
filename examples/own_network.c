// SPDX-License-Identifier: Apache-2.0
// Two networks of one's own, trained on data of one's own within a budget: a small convolutional network that tells which
// quarter of an image is bright, and a transformer block that learns to repeat a text's first token.
// Usage: own_network
#include <checkmate/checkmate.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, SIDE = 32, LENGTH = 12, WORDS = 20, WIDTH = 32, SAMPLES = 1024, STEPS = 100 };

// A number that depends on nothing but its arguments.
static uint32_t noise(int64_t sample, int64_t i)
{
    uint64_t x = ((uint64_t)sample << 32 | (uint64_t)(uint32_t)i) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32);
}

static ckm_status read_image(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    (void)user;
    (void)err;
    float *image = inputs[0];
    int32_t quarter = (int32_t)(noise(sample, -1) % 4);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            bool bright = (y >= SIDE / 2) * 2 + (x >= SIDE / 2) == quarter;
            float grey = (float)(noise(sample, y * SIDE + x) % 1000) / 1000.0F;
            image[y * SIDE + x] = bright ? grey + 0.5F : grey;
        }
    }
    *(int32_t *)labels = quarter;
    return CKM_OK;
}

static ckm_status read_text(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    (void)user;
    (void)err;
    int32_t *tokens = inputs[0];
    int32_t *wanted = labels;
    for (int i = 0; i < LENGTH; i++) {
        tokens[i] = (int32_t)(noise(sample, i) % WORDS);
        wanted[i] = tokens[0];
    }
    return CKM_OK;
}

static ckm_status build_cnn(ckm_graph **out, ckm_error *err)
{
    ckm_network *net = NULL;
    if (ckm_network_create("quarters", BATCH, &net, err) != CKM_OK) {
        return err->code;
    }
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (int64_t[]){SIDE, SIDE, 1});
    for (int64_t filters = 8; filters <= 16; filters *= 2) {
        x = ckm_network_conv(net, x, (ckm_conv_layer){.filters = filters, .kernel = {3}, .padding = "same"});
        x = ckm_network_batch_norm(net, x, (ckm_batch_norm_layer){0});
        x = ckm_network_activation(net, x, NULL, "relu");
        x = ckm_network_max_pool(net, x, (ckm_pool_layer){.size = {2}});
    }
    x = ckm_network_dense(net, ckm_network_flatten(net, x, NULL), NULL, 4, NULL);
    ckm_status status = ckm_network_finish(net, x, out, err);
    ckm_network_free(net);
    return status;
}

static ckm_status build_transformer(ckm_graph **out, ckm_error *err)
{
    ckm_network *net = NULL;
    if (ckm_network_create("first-token", BATCH, &net, err) != CKM_OK) {
        return err->code;
    }
    ckm_layer tokens = ckm_network_input(net, "tokens", CKM_I32, 1, (int64_t[]){LENGTH});
    ckm_layer x = ckm_network_add_positions(net, ckm_network_embed(net, tokens, NULL, WORDS, WIDTH), NULL);
    ckm_layer h = ckm_network_layer_norm(net, x, NULL, 0);
    ckm_layer q = ckm_network_dense(net, h, "q", WIDTH, NULL);
    ckm_layer k = ckm_network_dense(net, h, "k", WIDTH, NULL);
    ckm_layer v = ckm_network_dense(net, h, "v", WIDTH, NULL);
    h = ckm_network_attention(net, q, k, v, (ckm_attention_layer){.heads = 4, .causal = true});
    x = ckm_network_add(net, NULL, (ckm_layer[]){x, ckm_network_dense(net, h, "out", WIDTH, NULL)}, 2);
    h = ckm_network_dense(net, ckm_network_layer_norm(net, x, NULL, 0), NULL, 4 * WIDTH, NULL);
    h = ckm_network_dense(net, ckm_network_activation(net, h, NULL, "gelu"), NULL, WIDTH, NULL);
    x = ckm_network_add(net, NULL, (ckm_layer[]){x, h}, 2);
    ckm_status status = ckm_network_finish(net, ckm_network_dense(net, x, "words", WORDS, NULL), out, err);
    ckm_network_free(net);
    return status;
}

static ckm_status train(const ckm_graph *network, const ckm_data_source *data, ckm_error *err)
{
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_autodiff_options step = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_rate_schedule rate = CKM_RATE_SCHEDULE_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_trainer *trainer = NULL;
    ckm_train_result result;
    options.budget_fraction = 0.9;
    options.source = data;
    step.optimizer.kind = CKM_OPTIMIZER_ADAM;
    options.step = &step;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    rate.rate = 0.005;
    course.rate = &rate;
    course.last_step = STEPS;
    if (ckm_trainer_open(network, &options, &trainer, err) != CKM_OK) {
        return err->code;
    }
    ckm_trainer_info info = ckm_trainer_get_info(trainer);
    ckm_status status = ckm_trainer_run(trainer, &course, &result, err);
    if (status == CKM_OK) {
        printf("%s: %lld of %lld bytes allowed, %lld without rematerialization; loss %.3f to %.3f, %.0f %% right\n",
               ckm_graph_name(network), (long long)info.used_bytes, (long long)info.budget_bytes,
               (long long)info.baseline_bytes, result.first_loss, result.last_loss, 100 * result.accuracy);
    }
    ckm_trainer_close(trainer);
    return status;
}

int main(void)
{
    const ckm_data_source images = {.samples = SAMPLES, .classes = 4, .read = read_image};
    const ckm_data_source texts = {.samples = SAMPLES, .read = read_text};
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *cnn = NULL;
    ckm_graph *transformer = NULL;
    bool done = build_cnn(&cnn, &err) == CKM_OK && build_transformer(&transformer, &err) == CKM_OK &&
                train(cnn, &images, &err) == CKM_OK && train(transformer, &texts, &err) == CKM_OK;
    if (!done) {
        fprintf(stderr, "own_network: %s%s%s\n", err.file, err.file[0] != '\0' ? ": " : "", err.message);
    }
    ckm_graph_free(cnn);
    ckm_graph_free(transformer);
    return done ? 0 : 1;
}
