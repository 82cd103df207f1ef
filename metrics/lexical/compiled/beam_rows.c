/* Where the window of every row is, and what two rows of bits say together. */
#include "beam_rows.h"

static Moves moves_of(int64_t middle, int64_t before, int is_zero) {
    Moves moves;
    moves.middle = middle;
    moves.step = is_zero ? 0 : (int)(middle - before);
    /* The row before begins at the same column, */
    int64_t low = middle > BEAM ? middle - BEAM : 0;
    int64_t low_before = is_zero ? low : before > BEAM ? before - BEAM : 0;
    int first = middle < BEAM ? (int)(BEAM - middle) : 0;
    moves.first = low == low_before ? ONE << first : 0;
    /* and ends with its beam. */
    moves.reached = ~(uint64_t)0 >> (moves.step + 63 - 2 * BEAM);
    return moves;
}

void forward_moves(Moves *moves, int64_t n, int64_t m) {
    double ratio = (double)m / (double)n;
    int64_t before = 0;
    for (int64_t i = 0; i <= n; i++) {
        int64_t middle = (int64_t)((double)i * ratio);
        middle = middle < m ? middle : m;
        moves[i] = moves_of(middle, before, i == 0);
        before = middle;
    }
    moves[1].reached = ~(uint64_t)0; /* of row 0 all columns count */
}

void backward_moves(Moves *moves, const Moves *forward, int64_t n, int64_t m) {
    int64_t before = 0;
    for (int64_t i = 0; i <= n; i++) {
        int64_t middle = m + 1 - forward[n - i].middle;
        moves[i] = moves_of(middle, before, i == 0);
        before = middle;
    }
}

int64_t last_cell(Row row, int64_t beyond) {
    uint64_t more = ~(row.not_more >> (BEAM + 1)) & 1, less = row.less >> (BEAM + 1) & 1;
    return row.value + beyond * ((int64_t)more - (int64_t)less);
}

/* Bit k becomes bit 50 - k. */
static uint64_t reversed(uint64_t bits) {
    bits = (bits >> 1 & 0x5555555555555555) | (bits & 0x5555555555555555) << 1;
    bits = (bits >> 2 & 0x3333333333333333) | (bits & 0x3333333333333333) << 2;
    bits = (bits >> 4 & 0x0f0f0f0f0f0f0f0f) | (bits & 0x0f0f0f0f0f0f0f0f) << 4;
    bits = (bits >> 8 & 0x00ff00ff00ff00ff) | (bits & 0x00ff00ff00ff00ff) << 8;
    bits = (bits >> 16 & 0x0000ffff0000ffff) | (bits & 0x0000ffff0000ffff) << 16;
    return (bits >> 32 | bits << 32) >> (63 - 2 * BEAM);
}

/* The cheapest way through some row: to a column of it, and from there to the end. */
int64_t joined(Row row, Row back, int64_t middle, int64_t m) {
    uint64_t falls = reversed(~back.not_more), rises = reversed(back.less);
    /* Columns before and after the text are made the more, the farther. */
    int start = middle < BEAM ? (int)(BEAM - middle) : 0;
    int64_t room = m - middle + BEAM;
    int end = room < 2 * BEAM ? (int)room : 2 * BEAM;
    uint64_t before = ((uint64_t)2 << start) - 1, after = ~(((uint64_t)2 << end) - 1);
    uint64_t inside = ~(before | after);
    uint64_t more = (~row.not_more & ~before) | after, less = (row.less | before) & ~after;
    falls &= inside;
    rises &= inside;
    /* Add up the differences between neighbours; both values are known at the middle. */
    int64_t sum = 0, lowest = INT64_MAX, at_middle = 0;
    for (int k = 0; k < 2 * BEAM; k++) {
        sum += (int64_t)(more >> k & 1) - (int64_t)(less >> k & 1);
        sum += (int64_t)(rises >> k & 1) - (int64_t)(falls >> k & 1);
        lowest = sum < lowest ? sum : lowest;
        at_middle = k == BEAM ? sum : at_middle;
    }
    int64_t fall = (int64_t)(~back.not_more >> BEAM & 1), rise = (int64_t)(back.less >> BEAM & 1);
    return row.value + back.value - fall + rise + lowest - at_middle;
}
