/* Edit distances of pairs of texts within Tercom's beam, a row of the table in one integer per pair.

   Row i of a pair's table holds the distances of the first i words of the hypothesis to the first j of the reference.
   The beam has the columns from mid(i) - 25 to mid(i) + 24, mid(i) = floor(i |r| / |h|); neighbours there differ by
   -1, 0, 1:
       bit k of a row         column mid(i) - 25 + k
       below column 0         without meaning
       bits 50 and up         beyond the beam: each one more than the column before it, so that no cheapest edit comes
                              back
   This is Myers' algorithm (1999) in the form of Hyyrö (2003), in a window that moves by mid(i) - mid(i - 1). */
#ifndef DISCORANK_BEAM_ROWS_H
#define DISCORANK_BEAM_ROWS_H

#include "kernels.h"

#define BEAM 25
#define PAD 64 /* bits before the first place of a text */
#define ONE ((uint64_t)1)
#define BESIDE (ONE << (BEAM + 1)) /* the bit after the middle */

#if defined(__GNUC__) || defined(__clang__)
#define SET_BITS(bits) __builtin_popcountll(bits)
#else
static inline int SET_BITS(uint64_t bits) {
    int count = 0;
    for (; bits; bits &= bits - 1) {
        count++;
    }
    return count;
}
#endif

/* How the window of a row moves. */
typedef struct {
    int64_t middle;
    int step;
    uint64_t first;   /* the bit of the first column if it is reached from above alone */
    uint64_t reached; /* the bits reached across from the row before */
} Moves;

typedef struct {
    uint64_t not_more, less;
    int64_t value;
} Row;

typedef struct {
    uint64_t across, down, match;
} Steps;

void forward_moves(Moves *moves, int64_t n, int64_t m);
void backward_moves(Moves *moves, const Moves *forward, int64_t n, int64_t m);
int64_t last_cell(Row row, int64_t beyond);
int64_t joined(Row row, Row back, int64_t middle, int64_t m);

static inline Row row_zero(const Moves *moves) {
    Row row = {0, 0, moves[0].middle};
    return row;
}

/* The row after `row`; `same` has the columns with the row's word. */
static inline Row next_row(Row row, Moves moves, uint64_t same, Steps *steps) {
    uint64_t reached = moves.reached & ~moves.first;
    uint64_t match = same & reached;
    /* Move the window along the row before. */
    uint64_t more = ~(row.not_more >> moves.step | moves.first);
    uint64_t less = row.less >> moves.step | moves.first;
    /* Cells equal to the one across, and those that are more or less than the one above. */
    uint64_t as_across = (((match & more) + more) ^ more) | match | less;
    uint64_t more_than_above = less | ~(as_across | more);
    uint64_t less_than_above = as_across & more;
    steps->across = match | (~as_across & reached);
    steps->down = more_than_above & (reached >> 1);
    steps->match = match;
    /* Neighbours in the new row; its middle changes along the row before, and then from above. */
    uint64_t above_more = more_than_above << 1, above_less = less_than_above << 1;
    uint64_t lower = (ONE << 2 * BEAM) - 1, between = BESIDE - (BESIDE >> moves.step);
    Row next;
    next.not_more = (as_across | above_more) & ~above_less & lower;
    next.less = above_more & as_across & lower;
    next.value = row.value + SET_BITS((more & between) | (above_more & BESIDE)) -
                 SET_BITS((less & between) | (above_less & BESIDE));
    return next;
}

#endif
