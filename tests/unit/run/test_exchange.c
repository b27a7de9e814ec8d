// SPDX-License-Identifier: Apache-2.0
// The exchange between ranks, with threads in place of processes and a transport that hands messages over in memory: sums
// in the order of the ranks, bit for bit, whatever the number of ranks, pieces and gradients; states from rank to rank; one
// outcome for all.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "run/ranks/ranks.h"

enum { MOST_RANKS = 5, MOST_MESSAGES = 64, GRADIENTS = 4, STEPS = 3 };

// A message waits here until it is received; who sends it is done when it is.
typedef struct message {
    bool used, taken;
    int32_t from, to, channel;
    const void *data;
    int64_t bytes, number;
} message;

typedef struct hub {
    pthread_mutex_t lock;
    message messages[MOST_MESSAGES];
    int64_t number;
} hub;

// A transfer under way in a slot.
typedef struct transfer {
    message *sent;  // NULL: received
    int32_t from, channel;
    void *data;
    int64_t bytes;
} transfer;

typedef struct end {
    hub *h;
    int32_t rank;
    transfer slots[CKM_RANKS_SLOTS];
    ckm_ranks ranks;
    ckm_status (*work)(struct end *e, ckm_error *err);
    ckm_status status;
    ckm_error err;
    float *result;
} end;

static const int64_t sizes[GRADIENTS] = {1, 70000, 32768, 5};

static ckm_status hub_send(void *user, int32_t slot, int32_t to, int32_t channel, const void *data, int64_t bytes,
                           ckm_error *err)
{
    end *e = user;
    ckm_status status = ckm_i_error(err, CKM_ERR_INTERNAL, "too many messages");
    pthread_mutex_lock(&e->h->lock);
    for (int i = 0; i < MOST_MESSAGES; i++) {
        message *m = &e->h->messages[i];
        if (!m->used) {
            *m = (message){true, false, e->rank, to, channel, data, bytes, e->h->number++};
            e->slots[slot] = (transfer){.sent = m};
            status = CKM_OK;
            break;
        }
    }
    pthread_mutex_unlock(&e->h->lock);
    return status;
}

static ckm_status hub_receive(void *user, int32_t slot, int32_t from, int32_t channel, void *data, int64_t bytes,
                              ckm_error *err)
{
    end *e = user;
    (void)err;
    e->slots[slot] = (transfer){.from = from, .channel = channel, .data = data, .bytes = bytes};
    return CKM_OK;
}

// The first message that this transfer is to receive, or NULL.
static message *first_for(const end *e, const transfer *t)
{
    message *first = NULL;
    for (int i = 0; i < MOST_MESSAGES; i++) {
        message *m = &e->h->messages[i];
        if (m->used && !m->taken && m->to == e->rank && m->from == t->from && m->channel == t->channel &&
            (first == NULL || m->number < first->number)) {
            first = m;
        }
    }
    return first;
}

static ckm_status hub_test(void *user, int32_t slot, bool *done, ckm_error *err)
{
    end *e = user;
    transfer *t = &e->slots[slot];
    ckm_status status = CKM_OK;
    pthread_mutex_lock(&e->h->lock);
    if (t->sent != NULL) {
        *done = t->sent->taken;
        t->sent->used = !*done;
    } else {
        message *m = first_for(e, t);
        *done = m != NULL;
        if (m != NULL && m->bytes != t->bytes) {
            status = ckm_i_error(err, CKM_ERR_INTERNAL, "%lld bytes were sent and %lld are expected",
                                 (long long)m->bytes, (long long)t->bytes);
        } else if (m != NULL) {
            memcpy(t->data, m->data, (size_t)m->bytes);
            m->taken = true;
        }
    }
    pthread_mutex_unlock(&e->h->lock);
    return status;
}

static void hub_abort(void *user, const ckm_error *err)
{
    (void)user;
    (void)err;
}

static void *run_end(void *context)
{
    end *e = context;
    e->status = e->work(e, &e->err);
    return NULL;
}

// `work` on every rank at once.
static void on_ranks(int32_t count, ckm_status (*work)(end *e, ckm_error *err), end *ends)
{
    static hub h;
    pthread_t threads[MOST_RANKS];
    h = (hub){.lock = PTHREAD_MUTEX_INITIALIZER};
    for (int32_t r = 0; r < count; r++) {
        ends[r] = (end){.h = &h, .rank = r, .work = work};
        ends[r].ranks = (ckm_ranks){r, count, count, 0, &ends[r], hub_send, hub_receive, hub_test, hub_abort};
    }
    for (int32_t r = 0; r < count; r++) {
        assert_int_equal(pthread_create(&threads[r], NULL, run_end, &ends[r]), 0);
    }
    for (int32_t r = 0; r < count; r++) {
        pthread_join(threads[r], NULL);
    }
}

static int64_t all_sizes(void)
{
    int64_t n = 0;
    for (int g = 0; g < GRADIENTS; g++) {
        n += sizes[g];
    }
    return n;
}

// Numbers of very different size, so that another order of adding gives other bits.
static float number(int32_t rank, int64_t step, int64_t i)
{
    ckm_i_rng rng = {(uint64_t)rank * 1000003 + (uint64_t)step * 7919 + (uint64_t)i * 31};
    uint64_t bits = ckm_i_rng_next(&rng);
    float scale = (float)(1U << (bits >> 59));
    return ((float)(bits & 0xffffff) / 8388608.0F - 1.0F) * scale;
}

static ckm_status exchange_steps(end *e, ckm_error *err)
{
    ckm_i_exchange *x = NULL;
    ckm_status status = CKM_OK;
    int64_t n = all_sizes();
    e->result = ckm_i_malloc((size_t)(STEPS * n), sizeof *e->result);
    if (e->result == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_i_exchange_create(&e->ranks, GRADIENTS, 70000, &x, err));
    for (int64_t step = 0; step < STEPS; step++) {
        float *at = e->result + step * n;
        for (int64_t i = 0; i < n; i++) {
            at[i] = number(e->rank, step, i);
        }
        float *values = at;
        for (int g = 0; g < GRADIENTS; values += sizes[g], g++) {
            CKM_I_TRY(x->begin(x, values, sizes[g], err));
            CKM_I_TRY(x->advance(x, err));
        }
        // Asked for in another order than they were sent.
        CKM_I_TRY(x->end(x, at + sizes[0], err));
        CKM_I_TRY(x->end(x, at, err));
        CKM_I_TRY(x->finish(x, err));
    }
cleanup:
    ckm_i_exchange_free(x);
    return status;
}

static void sums_are_in_the_order_of_the_ranks(void **state)
{
    static end ends[MOST_RANKS];
    int64_t n = all_sizes();
    (void)state;
    for (int32_t count = 2; count <= MOST_RANKS; count++) {
        int64_t other_order = 0;
        on_ranks(count, exchange_steps, ends);
        for (int32_t r = 0; r < count; r++) {
            assert_int_equal(ends[r].status, CKM_OK);
            assert_memory_equal(ends[r].result, ends[0].result, (size_t)(STEPS * n) * sizeof(float));
        }
        for (int64_t i = 0; i < STEPS * n; i++) {
            float sum = number(0, i / n, i % n);
            float backwards = number(count - 1, i / n, i % n);
            for (int32_t r = 1; r < count; r++) {
                sum += number(r, i / n, i % n);
                backwards += number(count - 1 - r, i / n, i % n);
            }
            float mean = sum * (float)(1.0 / (double)count);
            assert_memory_equal(&ends[0].result[i], &mean, sizeof mean);
            other_order += memcmp(&sum, &backwards, sizeof sum) != 0;
        }
        // Else any order would have done.
        assert_true(count == 2 || other_order > n / 10);
        for (int32_t r = 0; r < count; r++) {
            free(ends[r].result);
        }
    }
}

// Every rank doubles a state and adds its number, the last one's is everybody's.
static ckm_status hand_on_state(end *e, ckm_error *err)
{
    ckm_i_exchange *x = NULL;
    ckm_status status = CKM_OK;
    int64_t value = 1;
    CKM_I_TRY(ckm_i_exchange_create(&e->ranks, 1, 1, &x, err));
    for (int step = 0; step < 2; step++) {
        CKM_I_TRY(x->take_state(x, &value, sizeof value, err));
        value = 2 * value + e->rank;
        CKM_I_TRY(x->give_state(x, &value, sizeof value, err));
        CKM_I_TRY(x->share_state(x, &value, sizeof value, err));
        CKM_I_TRY(x->finish(x, err));
    }
    // Three ranks make 12 of 1 and 100 of 12.
    status = value == 100 ? CKM_OK : ckm_i_error(err, CKM_ERR_INTERNAL, "the state is %lld", (long long)value);
cleanup:
    ckm_i_exchange_free(x);
    return status;
}

static void states_go_from_rank_to_rank(void **state)
{
    static end ends[MOST_RANKS];
    (void)state;
    on_ranks(3, hand_on_state, ends);
    for (int32_t r = 0; r < 3; r++) {
        if (ends[r].status != CKM_OK) {
            fail_msg("rank %d: %s", (int)r, ends[r].err.message);
        }
    }
}

// Ranks 2 and 3 fail; then none does; then one has another value, then only rank 0 fails.
static ckm_status disagree(end *e, ckm_error *err)
{
    ckm_error mine = CKM_ERROR_INIT;
    ckm_status status = e->rank >= 2 ? ckm_i_error(&mine, CKM_ERR_FORMAT, "bad line") : CKM_OK;
    bool right = ckm_ranks_agree(&e->ranks, status, &mine) == CKM_ERR_FORMAT &&
                 strcmp(mine.message, "rank 2: bad line") == 0;
    right = ckm_ranks_agree(&e->ranks, CKM_OK, &mine) == CKM_OK && right;
    right = ckm_i_ranks_same(&e->ranks, 7, "has another number", &mine) == CKM_OK && right;
    right = ckm_i_ranks_same(&e->ranks, e->rank == 1, "has another number", &mine) == CKM_ERR_ARGUMENT && right;
    right = strncmp(mine.message, "rank 1 has another number than rank 0", 37) == 0 && right;
    status = e->rank == 0 ? ckm_i_error(&mine, CKM_ERR_IO, "bad file") : CKM_OK;
    right = ckm_ranks_agree(&e->ranks, status, &mine) == CKM_ERR_IO && strcmp(mine.message, "bad file") == 0 && right;
    int64_t most = 10 - e->rank;
    right = ckm_i_ranks_most(&e->ranks, &most, &mine) == CKM_OK && most == 10 && right;
    return right ? CKM_OK : ckm_i_error(err, CKM_ERR_INTERNAL, "not what was to be: %s", mine.message);
}

static void all_come_to_one_outcome(void **state)
{
    static end ends[MOST_RANKS];
    (void)state;
    on_ranks(4, disagree, ends);
    for (int32_t r = 0; r < 4; r++) {
        if (ends[r].status != CKM_OK) {
            fail_msg("rank %d: %s", (int)r, ends[r].err.message);
        }
    }
    assert_int_equal(ckm_ranks_agree(NULL, CKM_ERR_IO, NULL), CKM_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_in_the_order_of_the_ranks),
        cmocka_unit_test(states_go_from_rank_to_rank),
        cmocka_unit_test(all_come_to_one_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
