/* What the kernels share. Words and symbols arrive as numbers, texts as rows of one array: row t has the values
 * offsets[t] to offsets[t + 1] - 1. */
#ifndef DISCORANK_KERNELS_H
#define DISCORANK_KERNELS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* one wheel for Python 3.11 and later */
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const int64_t *values;
    const int64_t *offsets;
} Texts;

static inline int64_t length_of(Texts texts, int64_t row) {
    return texts.offsets[row + 1] - texts.offsets[row];
}

static inline const int64_t *row_of(Texts texts, int64_t row) {
    return texts.values + texts.offsets[row];
}

/* Where each value stands in one text: first[value] is its first place, next[place] the next one, -1 the end. */
typedef struct {
    int64_t *first; /* [values] */
    int64_t *count; /* [values] how often it stands there */
    int64_t *next;  /* [longest text] */
    int64_t row;    /* the text, -1 before the first */
} PlacesOf;

int places_begin(PlacesOf *places, int64_t num_values, int64_t longest);
void places_move(PlacesOf *places, Texts texts, int64_t row); /* to another text */
void places_end(PlacesOf *places);

PyObject *ngram_matches(PyObject *self, PyObject *arguments);
PyObject *shift_edits(PyObject *self, PyObject *arguments);
PyObject *weighted_common(PyObject *self, PyObject *arguments);
PyObject *word_alignments(PyObject *self, PyObject *arguments);

#endif
