// SPDX-License-Identifier: Apache-2.0
// Branch and bound. Where the activity of a row is a whole number in every solution that counts, and 1.25 in the
// relaxation's, it is at most 1 or at least 2: two programs that differ from their parent in a side of one row, and from
// whose basis the dual simplex continues. Integer columns are branched on in the same way, unless the program is relaxed. The
// open node with the least bound is branched on next. Every bound comes from multipliers (ckm_i_milp_safe_bound), so the
// least of them all is proven, wherever the tree ends.
//
// Which row or column: the one with the largest product of what both sides are expected to gain, which is what they gained
// before, per unit of activity (M. Benichou et al., Experiments in mixed-integer linear programming, Mathematical
// Programming 1, 1971; the product: T. Achterberg, Constraint Integer Programming, 2007, section 5.3). To begin with it is
// the objective of one more unit. In integer programs a few iterations of the dual simplex give estimates where little is known
// (reliability branching; the same, section 5.7).
#include "milp/milp_tree.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

// Activities this close to a whole number are one.
static const double whole_tolerance = 1e-5;

// The tree of a relaxation ends when `window` branched nodes together close less than this share of the gap.
enum { window = 4 };
static const double worthwhile = 0.02;

// Time to solve the open node with the least bound once more in the end.
static const double last_seconds = 0.5;

// A side gains at least this in the product, or a side that gains nothing would hide what the other one does.
static const double least_gain = 1e-9;

// Strong branching: at most `most_trials` trials a node, of `trial_iterations` iterations at most, of candidates branched on
// less than `reliable` times. They end early when `patient_trials` in a row are no better than the best.
enum { most_trials = 16, trial_iterations = 50, reliable = 4, patient_trials = 4 };

// Bases kept at most: where there is no room for another one, the tree ends.
static const size_t most_basis_bytes = (size_t)512 << 20;

// What is branched on: a row, or a column as ~column.
typedef int32_t place;

typedef struct node {
    struct node *before;        // the one made before it, for the end
    const struct node *parent;  // NULL: the root
    place side_of;              // what it adds to its parent: a bound on this row or column
    bool is_lower;
    double side;
    double bound;
    unsigned char *basis;  // Clp's, of columns, then of rows; NULL once branched on
    int32_t basis_rows;
    int32_t object;  // to branch on, -1: none
    double activity;
} node;

typedef struct gains {
    double sum;  // per unit of activity
    int32_t n;
} gains;

typedef struct candidate {
    int32_t object;
    double activity, score;
} candidate;

typedef struct tree {
    Clp_Simplex *clp;
    ckm_i_milp *m;
    const ckm_i_milp_options *options;
    double deadline_seconds;
    double *row_lower, *row_upper;  // at the root
    double *col_lower, *col_upper;
    int32_t rows;       // that these have
    int32_t n_objects;  // whole rows, then integer columns
    place *object;
    double *unit_cost;  // of each
    gains *up, *down;
    candidate *candidates;
    unsigned char *status;  // a basis with all rows
    node *last;             // made
    node **open;
    int32_t n_open, cap_open;
    size_t basis_bytes;
    double closed;  // the least bound of the nodes that are not branched on further
    int32_t n_solved;
} tree;

static int32_t count_columns(const ckm_i_milp *m)
{
    int32_t n = 0;
    for (int32_t j = 0; j < m->n_cols; j++) {
        n += m->integer[j];
    }
    return n;
}

static void list_objects(tree *t)
{
    const ckm_i_milp *m = t->m;
    for (int32_t i = 0; i < t->options->n_whole; i++) {
        int32_t row = t->options->first_whole + i;
        int64_t first = m->row_start[row];
        t->object[i] = row;
        t->unit_cost[i] = first < m->n_entries ? m->obj[m->entry_col[first]] : 0.0;
    }
    int32_t n = t->options->n_whole;
    for (int32_t j = 0; n < t->n_objects && j < m->n_cols; j++) {
        if (m->integer[j]) {
            t->object[n] = ~j;
            t->unit_cost[n++] = fabs(m->obj[j]);
        }
    }
}

// The sides of the rows at the root, again after rows were appended.
static bool note_rows(tree *t)
{
    size_t n = (size_t)t->m->n_rows;
    double *lower = realloc(t->row_lower, (n + 1) * sizeof *lower);
    t->row_lower = lower != NULL ? lower : t->row_lower;
    double *upper = realloc(t->row_upper, (n + 1) * sizeof *upper);
    t->row_upper = upper != NULL ? upper : t->row_upper;
    unsigned char *status = realloc(t->status, n + (size_t)t->m->n_cols + 1);
    t->status = status != NULL ? status : t->status;
    if (lower == NULL || upper == NULL || status == NULL) {
        return false;
    }
    for (int32_t i = t->rows; i < t->m->n_rows; i++) {
        lower[i] = t->m->row_lower[i];
        upper[i] = t->m->row_upper[i];
    }
    t->rows = t->m->n_rows;
    return true;
}

static bool allocate(tree *t)
{
    size_t columns = (size_t)t->m->n_cols;
    t->n_objects = t->options->n_whole + (t->options->relax ? 0 : count_columns(t->m));
    size_t n = (size_t)t->n_objects + 1;
    t->object = malloc(n * sizeof *t->object);
    t->unit_cost = malloc(n * sizeof *t->unit_cost);
    t->up = calloc(n, sizeof *t->up);
    t->down = calloc(n, sizeof *t->down);
    t->candidates = malloc(n * sizeof *t->candidates);
    t->col_lower = malloc((columns + 1) * sizeof *t->col_lower);
    t->col_upper = malloc((columns + 1) * sizeof *t->col_upper);
    if (t->object == NULL || t->unit_cost == NULL || t->up == NULL || t->down == NULL || t->candidates == NULL ||
        t->col_lower == NULL || t->col_upper == NULL || !note_rows(t)) {
        return false;
    }
    memcpy(t->col_lower, t->m->lower, columns * sizeof *t->col_lower);
    memcpy(t->col_upper, t->m->upper, columns * sizeof *t->col_upper);
    list_objects(t);
    return true;
}

static void restore_sides(const tree *t)
{
    memcpy(t->m->row_lower, t->row_lower, (size_t)t->rows * sizeof(double));
    memcpy(t->m->row_upper, t->row_upper, (size_t)t->rows * sizeof(double));
    memcpy(t->m->lower, t->col_lower, (size_t)t->m->n_cols * sizeof(double));
    memcpy(t->m->upper, t->col_upper, (size_t)t->m->n_cols * sizeof(double));
}

// The sides of a node's rows and columns, in m and in Clp's model. False where those of one exclude each other.
static bool set_sides(const tree *t, const node *of)
{
    bool possible = true;
    ckm_i_milp *m = t->m;
    restore_sides(t);
    for (const node *n = of; n->parent != NULL; n = n->parent) {
        bool is_row = n->side_of >= 0;
        int32_t at = is_row ? n->side_of : ~n->side_of;
        double *lower = (is_row ? m->row_lower : m->lower) + at;
        double *upper = (is_row ? m->row_upper : m->upper) + at;
        if (n->is_lower) {
            *lower = fmax(*lower, n->side);
        } else {
            *upper = fmin(*upper, n->side);
        }
        possible = possible && *lower <= *upper;
    }
    memcpy(Clp_rowLower(t->clp), m->row_lower, (size_t)m->n_rows * sizeof(double));
    memcpy(Clp_rowUpper(t->clp), m->row_upper, (size_t)m->n_rows * sizeof(double));
    memcpy(Clp_columnLower(t->clp), m->lower, (size_t)m->n_cols * sizeof(double));
    memcpy(Clp_columnUpper(t->clp), m->upper, (size_t)m->n_cols * sizeof(double));
    return possible;
}

static double expected_gain(const gains *g, double unit_cost, double distance)
{
    return fmax((g->n > 0 ? g->sum / g->n : unit_cost) * distance, least_gain);
}

static node *make_node(tree *t, const node *parent)
{
    node *n = calloc(1, sizeof *n);
    if (n != NULL) {
        n->before = t->last;
        n->parent = parent;
        t->last = n;
    }
    return n;
}

static void dispose(tree *t)
{
    while (t->last != NULL) {
        node *before = t->last->before;
        free(t->last->basis);
        free(t->last);
        t->last = before;
    }
    free(t->row_lower);
    free(t->row_upper);
    free(t->col_lower);
    free(t->col_upper);
    free(t->object);
    free(t->unit_cost);
    free(t->up);
    free(t->down);
    free(t->candidates);
    free(t->status);
    free(t->open);
}

static void forget_basis(tree *t, node *n)
{
    t->basis_bytes -= n->basis != NULL ? (size_t)t->m->n_cols + (size_t)n->basis_rows : 0;
    free(n->basis);
    n->basis = NULL;
}

static bool keep_basis(tree *t, node *n)
{
    size_t size = (size_t)t->m->n_cols + (size_t)t->m->n_rows;
    forget_basis(t, n);
    if (t->basis_bytes + size > most_basis_bytes) {
        return false;
    }
    n->basis = malloc(size);
    t->basis_bytes += n->basis != NULL ? size : 0;
    n->basis_rows = t->m->n_rows;
    if (n->basis != NULL) {
        memcpy(n->basis, Clp_statusArray(t->clp), size);
    }
    return n->basis != NULL;
}

// The dual simplex from a node's basis, with rows that were appended since in it.
static void go_on_from(tree *t, const node *n, int iterations)
{
    enum { basic = 1 };
    size_t known = (size_t)t->m->n_cols + (size_t)n->basis_rows;
    memcpy(t->status, n->basis, known);
    memset(t->status + known, basic, (size_t)(t->m->n_rows - n->basis_rows));
    Clp_copyinStatus(t->clp, t->status);
    Clp_setNumberIterations(t->clp, 0);
    Clp_setMaximumIterations(t->clp, iterations);
    if (isfinite(t->deadline_seconds)) {
        Clp_setMaximumSeconds(t->clp, fmax(t->deadline_seconds - ckm_i_clock_seconds(), 0.001));
    }
    Clp_dual(t->clp, 0);
}

static void add_gain(tree *t, int32_t object, bool up, double activity, double gain)
{
    double above = activity - floor(activity);
    gains *g = &(up ? t->up : t->down)[object];
    if (isfinite(gain)) {
        g->sum += fmax(gain, 0.0) / (up ? 1.0 - above : above);
        g->n++;
    }
}

// The gain of the first iterations on one side of a node whose basis is kept.
static void try_side(tree *t, const node *n, const candidate *c, bool up)
{
    place at = t->object[c->object];
    double *side = at >= 0 ? (up ? Clp_rowLower(t->clp) : Clp_rowUpper(t->clp)) + at
                           : (up ? Clp_columnLower(t->clp) : Clp_columnUpper(t->clp)) + ~at;
    double before = *side;
    double most = t->options->enough - n->bound;
    *side = up ? ceil(c->activity) : floor(c->activity);
    go_on_from(t, n, trial_iterations);
    double gain = Clp_status(t->clp) == 1 ? most : Clp_objectiveValue(t->clp) - n->bound;
    *side = before;
    add_gain(t, c->object, up, c->activity, fmin(gain, most));
}

static double score_of(const tree *t, const candidate *c)
{
    double above = c->activity - floor(c->activity);
    return expected_gain(&t->up[c->object], t->unit_cost[c->object], 1.0 - above) *
           expected_gain(&t->down[c->object], t->unit_cost[c->object], above);
}

static int by_score(const void *a, const void *b)
{
    const candidate *p = a;
    const candidate *q = b;
    return p->score != q->score ? (p->score > q->score ? -1 : 1) : p->object - q->object;
}

// The rows and columns that are fractional in Clp's solution. Returns how many.
static int32_t collect(tree *t)
{
    const double *activity = Clp_getRowActivity(t->clp);
    const double *x = Clp_getColSolution(t->clp);
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_objects; i++) {
        double value = t->object[i] >= 0 ? activity[t->object[i]] : x[~t->object[i]];
        double above = value - floor(value);
        if (above >= whole_tolerance && above <= 1.0 - whole_tolerance) {
            candidate *c = &t->candidates[n++];
            *c = (candidate){.object = i, .activity = value};
            c->score = score_of(t, c);
        }
    }
    return n;
}

// The candidate to branch on at Clp's current solution, which is that of a node whose basis is kept.
static void choose(tree *t, node *n)
{
    int32_t count = collect(t);
    qsort(t->candidates, (size_t)count, sizeof *t->candidates, by_score);
    int32_t best = -1;
    int idle = 0;
    int trials = 0;
    for (int32_t i = 0; i < count; i++) {
        candidate *c = &t->candidates[i];
        bool known = t->options->relax || (t->up[c->object].n >= reliable && t->down[c->object].n >= reliable);
        bool has_time = trials < most_trials && idle < patient_trials && ckm_i_clock_seconds() < t->deadline_seconds;
        if (!known && has_time) {
            try_side(t, n, c, false);
            try_side(t, n, c, true);
            c->score = score_of(t, c);
            trials++;
        }
        bool better = best < 0 || c->score > t->candidates[best].score;
        best = better ? i : best;
        idle = better ? 0 : idle + 1;
        if (idle >= patient_trials) {
            break;
        }
    }
    n->object = best >= 0 ? t->candidates[best].object : -1;
    n->activity = best >= 0 ? t->candidates[best].activity : 0.0;
}

bool ckm_i_milp_append_rows(Clp_Simplex *clp, const ckm_i_milp *m, int32_t first)
{
    int32_t n = m->n_rows - first;
    CoinBigIndex *start = malloc(((size_t)n + 1) * sizeof *start);
    if (start == NULL) {
        return false;
    }
    int64_t base = m->row_start[first];
    for (int32_t i = 0; i < n; i++) {
        start[i] = (CoinBigIndex)(m->row_start[first + i] - base);
    }
    start[n] = (CoinBigIndex)(m->n_entries - base);
    Clp_addRows(clp, n, m->row_lower + first, m->row_upper + first, start, m->entry_col + base, m->entry_value + base);
    free(start);
    return true;
}

// Rows that cut off an integral solution that only an engine's tolerance admits. False if there are none.
static bool cut_off(tree *t)
{
    int32_t before = t->m->n_rows;
    return !t->options->relax && ckm_i_milp_cut_off(t->m, Clp_getColSolution(t->clp)) > 0 &&
           ckm_i_milp_append_rows(t->clp, t->m, before) && note_rows(t);
}

// Solves a node from a basis, and keeps its final basis if it is to be branched on. A node that Clp cannot solve keeps
// its parent's bound and is not branched on. False when there is no room for the basis.
static bool solve(tree *t, node *n, const node *from)
{
    n->object = -1;
    t->n_solved++;
    if (!set_sides(t, n)) {
        n->bound = INFINITY;
        return true;
    }
    go_on_from(t, from, INT_MAX);
    for (;;) {
        int status = Clp_status(t->clp);
        if (status == 0 || status == 3) {
            n->bound = fmax(n->bound, ckm_i_milp_safe_bound(t->m, Clp_dualRowSolution(t->clp)));
        }
        if (status == 1 && (ckm_i_milp_ray_proves_infeasible(t->m, Clp_infeasibilityRay(t->clp)) ||
                            ckm_i_milp_a_row_proves_infeasible(t->m))) {
            n->bound = INFINITY;
        }
        if (n->bound >= t->options->enough) {
            return true;
        }
        if (!keep_basis(t, n)) {
            return false;
        }
        if (status != 0) {
            return true;
        }
        choose(t, n);
        if (n->object >= 0 || !cut_off(t) || ckm_i_clock_seconds() >= t->deadline_seconds) {
            return true;
        }
        set_sides(t, n);
        go_on_from(t, n, INT_MAX);
    }
}

static bool push(tree *t, node *n)
{
    if (t->n_open == t->cap_open) {
        int32_t cap = t->cap_open > 0 ? 2 * t->cap_open : 64;
        node **more = realloc(t->open, (size_t)cap * sizeof(node *));
        if (more == NULL) {
            return false;
        }
        t->open = more;
        t->cap_open = cap;
    }
    t->open[t->n_open++] = n;
    return true;
}

static int32_t least_open(const tree *t)
{
    int32_t least = -1;
    for (int32_t i = 0; i < t->n_open; i++) {
        least = least < 0 || t->open[i]->bound < t->open[least]->bound ? i : least;
    }
    return least;
}

// False when memory runs out: the bound then does not improve.
static bool branch_on(tree *t, node *parent)
{
    for (int i = 0; i < 2; i++) {
        node *child = make_node(t, parent);
        if (child == NULL) {
            return false;
        }
        child->side_of = t->object[parent->object];
        child->is_lower = i == 1;
        child->side = child->is_lower ? ceil(parent->activity) : floor(parent->activity);
        child->bound = parent->bound;
        if (!solve(t, child, parent)) {
            return false;
        }
        double reached = fmin(child->bound, t->options->enough);
        add_gain(t, parent->object, child->is_lower, parent->activity, reached - parent->bound);
        if (child->bound >= t->options->enough) {
            t->closed = fmin(t->closed, child->bound);
        } else if (!push(t, child)) {
            return false;
        }
    }
    forget_basis(t, parent);
    return true;
}

// What all nodes together prove.
static double proven_by(const tree *t)
{
    int32_t least = least_open(t);
    return least < 0 ? t->closed : fmin(t->closed, t->open[least]->bound);
}

static void grow(tree *t, ckm_i_milp_answer *answer)
{
    double before_window = answer->proven;
    for (int32_t branched = 1; t->n_open > 0; branched++) {
        int32_t least = least_open(t);
        node *next = t->open[least];
        if (next->object < 0 || next->bound >= t->options->enough || ckm_i_clock_seconds() >= t->deadline_seconds) {
            return;
        }
        t->open[least] = t->open[--t->n_open];
        if (!branch_on(t, next)) {
            return;
        }
        answer->proven = fmax(answer->proven, proven_by(t));
        if (t->options->relax && branched % window == 0) {
            double missing = isfinite(t->options->enough) ? t->options->enough - before_window : fabs(before_window);
            if (answer->proven - before_window <= worthwhile * missing) {
                return;
            }
            before_window = answer->proven;
        }
    }
}

// Solves the node with the least bound once more, from its own basis: that takes hardly any iterations.
static void stand_at_least(tree *t)
{
    int32_t least = least_open(t);
    if (least >= 0 && t->open[least]->basis != NULL && set_sides(t, t->open[least])) {
        t->deadline_seconds = ckm_i_clock_seconds() + last_seconds;
        go_on_from(t, t->open[least], INT_MAX);
    }
}

int32_t ckm_i_milp_branch(Clp_Simplex *clp, ckm_i_milp *m, const ckm_i_milp_options *options, double deadline_seconds,
                          ckm_i_milp_answer *answer)
{
    tree t = {.clp = clp, .m = m, .options = options, .deadline_seconds = deadline_seconds, .closed = INFINITY};
    node *root = make_node(&t, NULL);
    if (root != NULL && allocate(&t) && keep_basis(&t, root)) {
        root->bound = answer->proven;
        if (solve(&t, root, root) && root->bound < options->enough && push(&t, root)) {
            grow(&t, answer);
            stand_at_least(&t);
        }
        answer->proven = fmax(answer->proven, root->bound);
        restore_sides(&t);
    }
    dispose(&t);
    return t.n_solved;
}
