// SPDX-License-Identifier: Apache-2.0
// Relaxations of windows: linear programs that schedules satisfy which are cut in several places. There are two, the stage relaxation
// for schedules that keep the graph's first-execution order, and the open one for every schedule; both recompute any number of times
// anywhere. docs/THEORY.md derives them row by row.
#ifndef CKM_SRC_SOLVE_BOUNDS_WINDOW_MODEL_H
#define CKM_SRC_SOLVE_BOUNDS_WINDOW_MODEL_H

#include <math.h>

#include "dataflow/dataflow.h"
#include "milp/milp.h"

// In place of a column of d.
enum { CKM_I_NOT_DONE = -1, CKM_I_DONE = -2 };

// A schedule is cut right after the first computations of the operators `cuts`. Window k is what happens from cut k to cut k + 1; the
// last one goes on to the end. Window -1 is what comes before the first cut.
//   s[k,x] = 1  x is live at cut k
//   r[k,v] = 1  v is computed in window k: where the order is kept, in addition to its first computation if that is there; where it is open,
//               for the first time or again (there docs/THEORY.md calls it e)
// Where the order is open, each of the cuts can be reached from the one before, so that all schedules come to them in this order, and
//   d[k,v] = 1  v has been computed by cut k: surely where cut k can be reached from v, surely not where v from it.
typedef struct ckm_i_window_model {
    const ckm_dataflow *df;
    ckm_i_milp milp;
    bool is_open;  // covers every schedule, not those alone that keep the order
    int32_t n_cuts;
    int32_t *cuts;        // ascending operators
    int32_t *s_col;       // [k * n_tensors + x]: column, -1 where zero
    int32_t *r_col;       // [(k + 1) * n_ops + v]
    int32_t *d_col;       // [k * n_ops + v]: column, or one of the above; NULL where the order is kept
    int32_t *need_start;  // per window: the first of its needs; n_cuts + 1 entries
    int32_t *
        needs;  // tensors made by operators that the end reads, and where the order is kept first computations of the window
    int32_t *view_of;     // per tensor: the operand of its operator on whose storage it lies, -1: none
    int32_t *memory_row;  // per cut
    int32_t first_whole;  // rows that ckm_i_window_add_whole has added
    int32_t n_whole;
    int64_t room_bytes;  // budget less what is always there
    double byte_scale;   // memory rows count in this many bytes
    double cost_scale;   // objective 1 is this much cost
    double
        constant;  // cost that the objective leaves out: first computations; of an open order those before the first cut
    int64_t cost_gcd;
} ckm_i_window_model;

// O(cuts * (operators + edges)) rows and columns.
ckm_status ckm_i_window_model_build(const ckm_dataflow *df, int64_t budget_bytes, bool is_open, const int32_t *cuts,
                                    int32_t n_cuts, ckm_i_window_model *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_window_model_dispose(ckm_i_window_model *model);

// Per operator: whether `from` can be reached from it, or it from `from`. Either excludes `from` itself. O(edges).
typedef struct ckm_i_open_reach {
    bool *before, *after;
} ckm_i_open_reach;
void ckm_i_open_find_reach(const ckm_dataflow *df, int32_t from, ckm_i_open_reach *out);

// Adds the row of memory at a cut, that right after the first computation of operator `cut`, and what it needs: what is live there and
// no operand or output of the operator fits with its working set. `live` is the cut's row of s, `group_col` room for a
// number a tensor. Returns the row.
int32_t ckm_i_add_cut_memory(ckm_i_milp *m, const ckm_dataflow *df, int32_t cut, const int32_t *live,
                             const int32_t *view_of, int64_t room_bytes, double byte_scale, int32_t *group_col);

// Appends free rows whose activity is a whole number in every schedule, to branch on: how often an operator is computed
// again, in all windows, and how often the operators of a class are; with `held`, also how many tensors of a class are held
// at a cut. O(cuts * (operators * log operators + tensors * log tensors)) entries.
ckm_status ckm_i_window_add_whole(ckm_i_window_model *model, bool held, ckm_error *err) CKM_NODISCARD;

// Columns of s and d for cut k, and of r for window k.
static inline const int32_t *ckm_i_window_s(const ckm_i_window_model *model, int32_t k)
{
    return model->s_col + (int64_t)k * model->df->n_tensors;
}

static inline const int32_t *ckm_i_window_d(const ckm_i_window_model *model, int32_t k)
{
    return model->d_col + (int64_t)k * model->df->n_ops;
}

static inline const int32_t *ckm_i_window_r(const ckm_i_window_model *model, int32_t k)
{
    return model->r_col + ((int64_t)k + 1) * model->df->n_ops;
}

// A column of a point, 0 where there is none. Engines leave columns a little outside their bounds; this does not.
static inline double ckm_i_window_value(const double *x, int32_t col)
{
    return col >= 0 ? fmin(fmax(x[col], 0.0), 1.0) : 0.0;
}

// Where a point of the relaxation that keeps the order needs more memory between the cuts than there is: the places for further cuts.
// For every operator an estimate of what is in memory while it first runs, less what there is, in parts of that: above 0 where the point
// holds too much. It proves nothing. O(cuts * tensors + edges). False when memory runs out.
bool ckm_i_cut_excess(const ckm_i_window_model *model, const double *x, double *excess);
// What the memory row of cut k leaves at the point, in parts of what there is.
double ckm_i_cut_slack(const ckm_i_window_model *model, const double *x, int32_t k);

#endif
