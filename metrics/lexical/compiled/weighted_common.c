/* Weighted longest common subsequences (Lin 2004) of pairs of texts, as `subsequences` defines them:
 *
 *     c(i, j) = c(i-1, j-1) + gains[k]            if word i and word j are equal, the k-th such in a row,
 *               max(c(i-1, j), c(i, j-1))         otherwise.
 *
 * One row of c is kept. Along a row c falls only where words are equal, so from the row before to this one it changes
 * at the equal words of either row, and to the right of them as far as it is less than what comes from the left. */
#include "kernels.h"

typedef struct {
    double *c;       /* [longest + 1] the row: c(i, j) at j */
    int64_t *run;    /* [longest + 1] equal words in a row up to column j, in row run_row[j] */
    int64_t *run_row;
    int64_t *columns;     /* equal words of this row, ascending; */
    double *values;       /* c there, */
    int64_t *runs;        /* and the run */
    int64_t *old_columns; /* equal words of the row before */
} Work;

static int work_begin(Work *work, int64_t longest) {
    size_t size = (size_t)(longest + 2) * 8;
    work->c = malloc(size);
    work->run = malloc(size);
    work->run_row = malloc(size);
    work->columns = malloc(size);
    work->values = malloc(size);
    work->runs = malloc(size);
    work->old_columns = malloc(size);
    return work->c && work->run && work->run_row && work->columns && work->values &&
                   work->runs && work->old_columns
               ? 0
               : -1;
}

static void work_end(Work *work) {
    free(work->c);
    free(work->run);
    free(work->run_row);
    free(work->columns);
    free(work->values);
    free(work->runs);
    free(work->old_columns);
}

/* From column j on, up to before `end`, c is at least `least`; there it does not fall. */
static void raise_from(double *c, int64_t j, int64_t end, double least) {
    /* Find where it is as much, by steps of 1, 2, 4, ... and back by halves. */
    int64_t low = j, step = 1;
    while (low + step < end && c[low + step - 1] < least) {
        low += step;
        step *= 2;
    }
    int64_t high = low + step < end ? low + step : end;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (c[middle] < least) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; j < low; j++) {
        c[j] = least;
    }
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static double wlcs(Work *work, const PlacesOf *places, const int64_t *h, int64_t n, int64_t m,
                   const double *gains) {
    double *c = work->c;
    for (int64_t j = 0; j <= m; j++) {
        c[j] = 0;
        work->run_row[j] = -1;
    }
    int64_t num_old = 0;
    for (int64_t i = 1; i <= n; i++) {
        /* What the equal words of this row are worth, from the row before. */
        int64_t num_new = 0;
        for (int64_t place = places->first[h[i - 1]]; place >= 0; place = places->next[place]) {
            int64_t run = work->run_row[place] == i - 1 ? work->run[place] + 1 : 1;
            work->columns[num_new] = place + 1;
            work->runs[num_new] = run;
            work->values[num_new++] = c[place] + gains[run];
        }
        work->columns[num_new] = m + 1;
        /* The columns of either row from left to right; those of the row before may have fallen. */
        int64_t old = 0;
        for (int64_t k = 0; k <= num_new; k++) {
            int64_t column = work->columns[k];
            for (; old < num_old && work->old_columns[old] < column; old++) {
                int64_t fallen = work->old_columns[old];
                raise_from(c, fallen, smaller(column, work->old_columns[old + 1]), c[fallen - 1]);
            }
            if (k == num_new) {
                break;
            }
            if (old < num_old && work->old_columns[old] == column) {
                old++;
            }
            c[column] = work->values[k];
            work->run[column] = work->runs[k];
            work->run_row[column] = i;
            int64_t end = work->columns[k + 1];
            if (old < num_old) {
                end = smaller(end, work->old_columns[old]);
            }
            raise_from(c, column + 1, end, c[column]);
        }
        int64_t *spare = work->old_columns;
        work->old_columns = work->columns;
        work->columns = spare;
        num_old = num_new;
    }
    return c[m];
}

/* weighted_common(values, offsets, num_values, longest, h, r, gains, out): WLCS of rows h and r, [pairs]; pairs of one r
 * should follow one another. `longest` words has no text more; values are below `num_values`. */
PyObject *weighted_common(PyObject *self, PyObject *arguments) {
    Py_buffer values, offsets, h, r, gains, out;
    long long num_values, longest;
    if (!PyArg_ParseTuple(arguments, "y*y*LLy*y*y*w*", &values, &offsets, &num_values, &longest,
                          &h, &r, &gains, &out)) {
        return NULL;
    }
    Texts texts = {values.buf, offsets.buf};
    const int64_t *rows_h = h.buf, *rows_r = r.buf;
    int64_t num_pairs = h.len / 8;
    double *results = out.buf;
    PlacesOf places = {NULL, NULL, NULL, -1};
    Work work = {0};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = places_begin(&places, num_values, longest) || work_begin(&work, longest);
    for (int64_t p = 0; p < num_pairs && !failed; p++) {
        places_move(&places, texts, rows_r[p]);
        results[p] = wlcs(&work, &places, row_of(texts, rows_h[p]), length_of(texts, rows_h[p]),
                          length_of(texts, rows_r[p]), gains.buf);
    }
    places_end(&places);
    work_end(&work);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&values);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&h);
    PyBuffer_Release(&r);
    PyBuffer_Release(&gains);
    PyBuffer_Release(&out);
    if (failed) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}
