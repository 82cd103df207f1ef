/* The cheapest edits of two texts whose first changes the order of its words. */
#ifndef DISCORANK_EDIT_TABLE_H
#define DISCORANK_EDIT_TABLE_H

#include "beam_rows.h"

typedef struct {
    int64_t a, b, c; /* the words a..b and b..c of the hypothesis change places */
} Swap;

typedef struct {
    /* where the words of the reference stand, as bits from PAD on, also read from its end; one row empty */
    int64_t row; /* the text, -1 before the first */
    int64_t *number; /* [values] row of a word's bits, 0 if it is not there */
    int64_t width;   /* integers of a row */
    uint64_t *bits, *from_end;
    PlacesOf places;
    /* [longest + 1] each */
    Moves *forward, *backward;
    Row *rows, *back;
    Steps *steps;
    int64_t *h, *numbers; /* hypothesis words, and their rows of bits */
    int64_t *spare;
    int64_t *columns; /* where the cheapest edit enters a row */
    int64_t *before;  /* hypothesis words before a column, [longest + 2] */
    int64_t *wrong_h, *wrong_r; /* edited words among the first */
    int64_t n, m;
    const int64_t *r;
} Table;

int table_begin(Table *table, int64_t num_values, int64_t longest);
void table_end(Table *table);
void move_to(Table *table, Texts texts, int64_t row); /* to another reference */
void take_hypothesis(Table *table, Texts texts, int64_t row);
int64_t fill_forward(Table *table); /* all rows; returns the distance */
void fill_backward(Table *table);   /* all rows of the table read from the end */
void align(Table *table);           /* `before`, `wrong_h` and `wrong_r` of the cheapest edit */
int64_t swapped_distance(const Table *table, Swap swap);
void exchange(Table *table, Swap swap); /* makes the swap */

#endif
