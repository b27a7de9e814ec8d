// SPDX-License-Identifier: Apache-2.0
// Branch and bound on rows. Where the activity of a row is a whole number in every solution that counts, and 1.25 in the
// relaxation's, it is at most 1 or at least 2: two programs that differ from their parent in a side of one row, and from
// whose basis the dual simplex goes on. The open node with the least bound is branched on next. Every bound comes from
// multipliers (ckm_i_milp_safe_bound), so the least of them all is proven, wherever the tree ends.
//
// Which row: the one with the largest product of what both sides are expected to gain, which is what they gained before, per
// unit of activity (M. Benichou et al., Experiments in mixed-integer linear programming, Mathematical Programming 1, 1971;
// the product: T. Achterberg, Constraint Integer Programming, 2007, section 5.3). To begin with it is the objective of one
// more unit.
#include "milp/milp_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

// Activities this close to a whole number are one.
static const double whole_tolerance = 1e-5;

// The tree ends when so many nodes that were branched on close less than this share of what is missing.
enum { window = 4 };
static const double worthwhile = 0.02;

// For the node that Clp is to stand at in the end.
static const double last_seconds = 0.5;

// A side gains at least this in the product, or a side that gains nothing would hide what the other one does.
static const double least_gain = 1e-9;

typedef struct node {
    struct node *before;        // the one made before it, for the end
    const struct node *parent;  // NULL: the root
    int32_t side_row;           // what it has beside its parent: a bound on this row
    bool is_lower;
    double side;
    double bound;
    unsigned char *basis;  // Clp's, of columns, then of rows; NULL once branched on
    int32_t row;           // to branch on, -1: none
    double activity;       // of that row
} node;

typedef struct gains {
    double sum;  // per unit of activity
    int32_t n;
} gains;

typedef struct tree {
    Clp_Simplex *clp;
    ckm_i_milp *m;
    const ckm_i_milp_options *options;
    double deadline_seconds;
    double *lower, *upper;  // sides of the rows at the root
    double *unit_cost;      // by row to branch on
    gains *up, *down;
    node *last;  // made
    node **open;
    int32_t n_open, cap_open;
    double closed;  // the least bound of the nodes that are not branched on further
    int32_t n_solved;
} tree;

static size_t basis_size(const tree *t)
{
    return (size_t)t->m->n_cols + (size_t)t->m->n_rows;
}

static bool allocate(tree *t)
{
    size_t rows = (size_t)t->m->n_rows;
    size_t n = (size_t)t->options->n_whole;
    t->lower = malloc(rows * sizeof *t->lower);
    t->upper = malloc(rows * sizeof *t->upper);
    t->unit_cost = malloc(n * sizeof *t->unit_cost);
    t->up = calloc(n, sizeof *t->up);
    t->down = calloc(n, sizeof *t->down);
    if (t->lower == NULL || t->upper == NULL || t->unit_cost == NULL || t->up == NULL || t->down == NULL) {
        return false;
    }
    memcpy(t->lower, t->m->row_lower, rows * sizeof *t->lower);
    memcpy(t->upper, t->m->row_upper, rows * sizeof *t->upper);
    for (size_t i = 0; i < n; i++) {
        int64_t first = t->m->row_start[(size_t)t->options->first_whole + i];
        t->unit_cost[i] = first < t->m->n_entries ? t->m->obj[t->m->entry_col[first]] : 0.0;
    }
    return true;
}

// The sides of a node's rows, in m and in Clp's model. False where those of a row exclude each other.
static bool set_sides(const tree *t, const node *of)
{
    bool possible = true;
    size_t bytes = (size_t)t->m->n_rows * sizeof(double);
    double *lower = t->m->row_lower;
    double *upper = t->m->row_upper;
    memcpy(lower, t->lower, bytes);
    memcpy(upper, t->upper, bytes);
    for (const node *n = of; n->parent != NULL; n = n->parent) {
        if (n->is_lower) {
            lower[n->side_row] = fmax(lower[n->side_row], n->side);
        } else {
            upper[n->side_row] = fmin(upper[n->side_row], n->side);
        }
        possible = possible && lower[n->side_row] <= upper[n->side_row];
    }
    memcpy(Clp_rowLower(t->clp), lower, bytes);
    memcpy(Clp_rowUpper(t->clp), upper, bytes);
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
    free(t->lower);
    free(t->upper);
    free(t->unit_cost);
    free(t->up);
    free(t->down);
    free(t->open);
}

// What to branch on at Clp's solution.
static void choose_row(const tree *t, node *n)
{
    const double *activity = Clp_getRowActivity(t->clp);
    double best = -1.0;
    n->row = -1;
    for (int32_t i = 0; i < t->options->n_whole; i++) {
        double value = activity[t->options->first_whole + i];
        double above = value - floor(value);
        if (above < whole_tolerance || above > 1.0 - whole_tolerance) {
            continue;
        }
        double score = expected_gain(&t->up[i], t->unit_cost[i], 1.0 - above) *
                       expected_gain(&t->down[i], t->unit_cost[i], above);
        if (score > best) {
            best = score;
            n->row = t->options->first_whole + i;
            n->activity = value;
        }
    }
}

static void note_gain(const tree *t, const node *parent, const node *child)
{
    double above = parent->activity - floor(parent->activity);
    double gain = fmax(fmin(child->bound, t->options->enough) - parent->bound, 0.0);
    gains *g = &(child->is_lower ? t->up : t->down)[parent->row - t->options->first_whole];
    if (isfinite(gain)) {
        g->sum += gain / (child->is_lower ? 1.0 - above : above);
        g->n++;
    }
}

static bool keep_basis(const tree *t, node *n)
{
    size_t size = basis_size(t);
    n->basis = malloc(size);
    if (n->basis != NULL) {
        memcpy(n->basis, Clp_statusArray(t->clp), size);
    }
    return n->basis != NULL;
}

// Solves a node from a basis. A node that Clp does not bring to an end keeps its parent's bound and is not branched on.
static void solve(tree *t, node *n, const unsigned char *basis)
{
    n->row = -1;
    t->n_solved++;
    if (!set_sides(t, n)) {
        n->bound = INFINITY;
        return;
    }
    Clp_copyinStatus(t->clp, basis);
    if (isfinite(t->deadline_seconds)) {
        Clp_setMaximumSeconds(t->clp, fmax(t->deadline_seconds - ckm_i_clock_seconds(), 0.001));
    }
    Clp_dual(t->clp, 0);
    int status = Clp_status(t->clp);
    if (status == 0 || status == 3) {
        n->bound = fmax(n->bound, ckm_i_milp_safe_bound(t->m, Clp_dualRowSolution(t->clp)));
    }
    if (status == 1 && ckm_i_milp_ray_proves_infeasible(t->m, Clp_infeasibilityRay(t->clp))) {
        n->bound = INFINITY;
    }
    if (status == 0 && n->bound < t->options->enough) {
        choose_row(t, n);
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

// False when memory runs out: then nothing more is proven than before.
static bool branch_on(tree *t, node *parent)
{
    for (int i = 0; i < 2; i++) {
        node *child = make_node(t, parent);
        if (child == NULL) {
            return false;
        }
        child->side_row = parent->row;
        child->is_lower = i == 1;
        child->side = child->is_lower ? ceil(parent->activity) : floor(parent->activity);
        child->bound = parent->bound;
        solve(t, child, parent->basis);
        note_gain(t, parent, child);
        if (child->row < 0 && child->bound >= t->options->enough) {
            t->closed = fmin(t->closed, child->bound);
        } else if (!keep_basis(t, child) || !push(t, child)) {
            return false;
        }
    }
    free(parent->basis);
    parent->basis = NULL;
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
        if (next->row < 0 || next->bound >= t->options->enough || ckm_i_clock_seconds() >= t->deadline_seconds) {
            return;
        }
        t->open[least] = t->open[--t->n_open];
        if (!branch_on(t, next)) {
            return;
        }
        answer->proven = fmax(answer->proven, proven_by(t));
        if (branched % window == 0) {
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
    if (least >= 0 && t->open[least]->basis != NULL) {
        t->deadline_seconds = ckm_i_clock_seconds() + last_seconds;
        solve(t, t->open[least], t->open[least]->basis);
    }
}

int32_t ckm_i_milp_branch(Clp_Simplex *clp, ckm_i_milp *m, const ckm_i_milp_options *options, double deadline_seconds,
                          ckm_i_milp_answer *answer)
{
    tree t = {.clp = clp, .m = m, .options = options, .deadline_seconds = deadline_seconds, .closed = INFINITY};
    node *root = make_node(&t, NULL);
    if (root != NULL && allocate(&t) && keep_basis(&t, root)) {
        root->bound = answer->proven;
        choose_row(&t, root);
        if (push(&t, root)) {
            grow(&t, answer);
            stand_at_least(&t);
        }
        memcpy(m->row_lower, t.lower, (size_t)m->n_rows * sizeof *t.lower);
        memcpy(m->row_upper, t.upper, (size_t)m->n_rows * sizeof *t.upper);
    }
    dispose(&t);
    return t.n_solved;
}
