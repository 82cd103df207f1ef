/* One-to-one alignments of words of pairs of texts in the order that `alignment` defines.
 *
 * A place (i, j) has words of equal stems. Places are sorted into buckets by what counts most, whether the words are
 * equal and how many places stand in a row on the diagonal, then bucket by bucket what is still free is sorted by the
 * rest: most words are taken by then. */
#include "kernels.h"

typedef struct {
    int64_t size;    /* places there is room for */
    int64_t longest; /* words of the longest text */
    int64_t *i, *j;
    int64_t *bucket; /* [size] first the run of a place, then the place's bucket */
    int64_t *length; /* [size] places of every run */
    int64_t *order;  /* [size] places, bucket by bucket */
    uint64_t *keys;  /* [size] those of one bucket that are free */
    int64_t *starts; /* [2 longest + 3] of the buckets */
    int64_t *run, *run_row; /* [longest + 1] the run of the last place in a column, and its row */
    int64_t *with_h; /* [longest] the word aligned with every word, -1 where there is none */
    int64_t *with_r;
} Work;

static int room_for(Work *work, int64_t size) {
    if (size <= work->size) {
        return 0;
    }
    free(work->i);
    work->size = 0;
    int64_t *cells = malloc((size_t)size * 6 * sizeof(int64_t));
    work->i = cells;
    if (cells == NULL) {
        return -1;
    }
    work->size = size;
    work->j = cells + size;
    work->bucket = cells + 2 * size;
    work->length = cells + 3 * size;
    work->order = cells + 4 * size;
    work->keys = (uint64_t *)(cells + 5 * size);
    return 0;
}

static int work_begin(Work *work, int64_t longest) {
    size_t size = (size_t)(longest + 2);
    work->longest = longest;
    int64_t *cells = malloc(7 * size * sizeof(int64_t));
    work->run = cells;
    if (cells == NULL) {
        return -1;
    }
    work->run_row = cells + size;
    work->with_h = cells + 2 * size;
    work->with_r = cells + 3 * size;
    work->starts = cells + 4 * size; /* three of them */
    return room_for(work, 4 * longest + 16);
}

static void work_end(Work *work) {
    free(work->i);
    free(work->run);
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort(uint64_t *keys, int64_t count) {
    if (count > 24) {
        qsort(keys, (size_t)count, sizeof(uint64_t), ascending);
        return;
    }
    for (int64_t a = 1; a < count; a++) {
        uint64_t key = keys[a];
        int64_t b = a;
        for (; b > 0 && keys[b - 1] > key; b--) {
            keys[b] = keys[b - 1];
        }
        keys[b] = key;
    }
}

/* All places of a pair, by i and j, with their runs; returns how many. */
static int64_t list_places(Work *work, const PlacesOf *places, const int64_t *stems_h, int64_t n,
                           int64_t m) {
    for (int64_t j = 0; j <= m; j++) {
        work->run_row[j] = -2;
    }
    int64_t count = 0, num_runs = 0;
    for (int64_t i = 0; i < n; i++) {
        /* Columns from right to left, so that what stands left of a place is still that of the row before. */
        int64_t first = count;
        for (int64_t j = places->first[stems_h[i]]; j >= 0; j = places->next[j]) {
            work->i[count] = i;
            work->j[count++] = j;
        }
        for (int64_t p = count - 1; p >= first; p--) {
            int64_t column = work->j[p] + 1;
            int64_t run;
            if (work->run_row[column - 1] == i - 1) {
                run = work->run[column - 1];
                work->length[run]++;
            } else {
                run = num_runs++;
                work->length[run] = 1;
            }
            work->run[column] = run;
            work->run_row[column] = i;
            work->bucket[p] = run;
        }
    }
    return count;
}

/* Aligns the words of one pair: out[0] equal words, out[1] equal stems, out[2] chunks. */
static void align(Work *work, int64_t count, const int64_t *words_h, int64_t n,
                  const int64_t *words_r, int64_t m, double *out, int64_t stride) {
    /* Bucket b of equal words has runs of longest - b places, and those of equal stems follow. */
    int64_t longest = work->longest, num_buckets = 2 * (longest + 1);
    memset(work->starts, 0, (size_t)(num_buckets + 1) * sizeof(int64_t));
    for (int64_t p = 0; p < count; p++) {
        int only_stems = words_h[work->i[p]] != words_r[work->j[p]];
        int64_t bucket = longest - work->length[work->bucket[p]] + only_stems * (longest + 1);
        work->bucket[p] = bucket;
        work->starts[bucket + 1]++;
    }
    for (int64_t b = 0; b < num_buckets; b++) {
        work->starts[b + 1] += work->starts[b];
    }
    for (int64_t p = 0; p < count; p++) {
        work->order[work->starts[work->bucket[p]]++] = p;
    }
    /* Now each bucket ends where the next one began. */
    for (int64_t i = 0; i < n; i++) {
        work->with_h[i] = -1;
    }
    for (int64_t j = 0; j < m; j++) {
        work->with_r[j] = -1;
    }
    int64_t low = 0;
    for (int64_t b = 0; b < num_buckets; b++) {
        /* Of the free places the nearest to the main diagonal is first, then the leftmost. */
        int64_t num_free = 0;
        for (; low < work->starts[b]; low++) {
            int64_t p = work->order[low], i = work->i[p], j = work->j[p];
            if (work->with_h[i] < 0 && work->with_r[j] < 0) {
                uint64_t distance = (uint64_t)(i < j ? j - i : i - j);
                uint64_t left = (uint64_t)(i < j ? i : j);
                work->keys[num_free++] = distance << 40 | left << 1 | (i > j);
            }
        }
        sort(work->keys, num_free);
        for (int64_t f = 0; f < num_free; f++) {
            int64_t distance = (int64_t)(work->keys[f] >> 40);
            int64_t left = (int64_t)(work->keys[f] >> 1 & 0x7fffffffff);
            int below = (int)(work->keys[f] & 1);
            int64_t i = below ? left + distance : left, j = below ? left : left + distance;
            if (work->with_h[i] < 0 && work->with_r[j] < 0) {
                work->with_h[i] = j;
                work->with_r[j] = i;
            }
        }
    }
    /* A chunk begins where the word before is not aligned with the word before. */
    int64_t equal = 0, stems = 0, chunks = 0, before = -2;
    for (int64_t i = 0; i < n; i++) {
        int64_t j = work->with_h[i];
        if (j >= 0) {
            int is_equal = words_h[i] == words_r[j];
            equal += is_equal;
            stems += !is_equal;
            chunks += before + 1 != j;
        }
        before = j < 0 ? -2 : j;
    }
    out[0] = (double)equal;
    out[stride] = (double)stems;
    out[2 * stride] = (double)chunks;
}

/* word_alignments(words, stems, offsets, num_stems, longest, max_places, h, r, out): equal words, equal stems and
 * chunks of rows h and r, [3, pairs]; pairs of one r should follow one another. Returns 0, or the places of a pair that
 * has more than `max_places`. */
PyObject *word_alignments(PyObject *self, PyObject *arguments) {
    Py_buffer words, stems, offsets, h, r, out;
    long long num_stems, longest, max_places;
    if (!PyArg_ParseTuple(arguments, "y*y*y*LLLy*y*w*", &words, &stems, &offsets, &num_stems,
                          &longest, &max_places, &h, &r, &out)) {
        return NULL;
    }
    Texts by_word = {words.buf, offsets.buf}, by_stem = {stems.buf, offsets.buf};
    const int64_t *rows_h = h.buf, *rows_r = r.buf;
    int64_t num_pairs = h.len / 8, too_many = 0;
    double *results = out.buf;
    PlacesOf places = {NULL, NULL, NULL, -1};
    Work work = {0};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = places_begin(&places, num_stems, longest) || work_begin(&work, longest);
    for (int64_t p = 0; p < num_pairs && !failed && !too_many; p++) {
        places_move(&places, by_stem, rows_r[p]);
        const int64_t *stems_h = row_of(by_stem, rows_h[p]);
        int64_t n = length_of(by_stem, rows_h[p]), m = length_of(by_stem, rows_r[p]), count = 0;
        for (int64_t i = 0; i < n; i++) {
            count += places.count[stems_h[i]];
        }
        if (count > max_places) {
            too_many = count;
            break;
        }
        failed = room_for(&work, count);
        if (!failed) {
            list_places(&work, &places, stems_h, n, m);
            align(&work, count, row_of(by_word, rows_h[p]), n, row_of(by_word, rows_r[p]), m,
                  results + p, num_pairs);
        }
    }
    places_end(&places);
    work_end(&work);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&words);
    PyBuffer_Release(&stems);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&h);
    PyBuffer_Release(&r);
    PyBuffer_Release(&out);
    if (failed) {
        return PyErr_NoMemory();
    }
    return PyLong_FromLongLong(too_many);
}
