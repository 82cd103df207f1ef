/* Fills tables of edit distances, a row of bits for each word, and reads the cheapest edit off them. */
#include "edit_table.h"

int table_begin(Table *table, int64_t num_values, int64_t longest) {
    size_t size = (size_t)(longest + 3);
    table->row = -1;
    table->width = (longest + 2 * PAD) / 64 + 2;
    table->number = calloc((size_t)num_values + 1, sizeof(int64_t));
    table->bits = calloc(size * (size_t)table->width, sizeof(uint64_t));
    table->from_end = calloc(size * (size_t)table->width, sizeof(uint64_t));
    table->forward = malloc(size * sizeof(Moves));
    table->backward = malloc(size * sizeof(Moves));
    table->rows = malloc(size * sizeof(Row));
    table->back = malloc(size * sizeof(Row));
    table->steps = malloc(size * sizeof(Steps));
    table->h = malloc(7 * size * sizeof(int64_t));
    if (places_begin(&table->places, num_values, longest) || !table->number || !table->bits ||
        !table->from_end || !table->forward || !table->backward || !table->rows ||
        !table->back || !table->steps || !table->h) {
        return -1;
    }
    table->numbers = table->h + size;
    table->spare = table->h + 2 * size;
    table->columns = table->h + 3 * size;
    table->before = table->h + 4 * size;
    table->wrong_h = table->h + 5 * size;
    table->wrong_r = table->h + 6 * size;
    return 0;
}

void table_end(Table *table) {
    places_end(&table->places);
    free(table->number);
    free(table->bits);
    free(table->from_end);
    free(table->forward);
    free(table->backward);
    free(table->rows);
    free(table->back);
    free(table->steps);
    free(table->h);
}

static void set_bit(uint64_t *bits, int64_t bit) {
    bits[bit >> 6] |= ONE << (bit & 63);
}

/* To another reference. */
void move_to(Table *table, Texts texts, int64_t row) {
    places_move(&table->places, texts, row);
    if (table->row == row) {
        return;
    }
    if (table->row >= 0) {
        const int64_t *old = row_of(texts, table->row);
        int64_t rows = length_of(texts, table->row) + 1;
        for (int64_t j = 0; j < rows - 1; j++) {
            table->number[old[j]] = 0;
        }
        memset(table->bits, 0, (size_t)(rows * table->width) * sizeof(uint64_t));
        memset(table->from_end, 0, (size_t)(rows * table->width) * sizeof(uint64_t));
    }
    table->row = row;
    table->r = row_of(texts, row);
    table->m = length_of(texts, row);
    int64_t rows = 1;
    for (int64_t j = 0; j < table->m; j++) {
        int64_t *number = &table->number[table->r[j]];
        if (*number == 0) {
            *number = rows++;
        }
        set_bit(table->bits + *number * table->width, j + PAD);
        set_bit(table->from_end + *number * table->width, table->m - 1 - j + PAD);
    }
}

/* Which columns of a row have a word, from the first bit of the window on. */
static uint64_t window(const uint64_t *bits, Moves moves) {
    int64_t start = moves.middle + PAD - BEAM - 1; /* column j is the word j - 1 */
    const uint64_t *here = bits + (start >> 6);
    int shift = (int)(start & 63);
    return shift ? here[0] >> shift | here[1] << (64 - shift) : here[0];
}

/* All rows of the table; returns the distance. */
int64_t fill_forward(Table *table) {
    int64_t n = table->n;
    Row row = row_zero(table->forward);
    table->rows[0] = row;
    for (int64_t i = 1; i <= n; i++) {
        const uint64_t *bits = table->bits + table->numbers[i - 1] * table->width;
        Moves moves = table->forward[i];
        row = next_row(row, moves, window(bits, moves), &table->steps[i]);
        table->rows[i] = row;
    }
    return last_cell(row, table->m - table->forward[n].middle);
}

/* All rows of the table read from the end. */
void fill_backward(Table *table) {
    int64_t n = table->n;
    Steps unused;
    Row row = row_zero(table->backward);
    table->back[0] = row;
    for (int64_t i = 1; i <= n; i++) {
        const uint64_t *bits = table->from_end + table->numbers[n - i] * table->width;
        Moves moves = table->backward[i];
        row = next_row(row, moves, window(bits, moves), &unused);
        table->back[i] = row;
    }
}

static int highest_bit(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return bits ? 63 - __builtin_clzll(bits) : -1;
#else
    int bit = -1;
    for (; bits; bits >>= 1) {
        bit++;
    }
    return bit;
#endif
}

/* How the words stand to each other in the cheapest edit: `before`, `wrong_h` and `wrong_r`. */
void align(Table *table) {
    int64_t n = table->n, m = table->m, j = m;
    for (int64_t column = 1; column <= m; column++) {
        table->wrong_r[column] = 1;
    }
    table->wrong_r[0] = table->wrong_h[0] = 0;
    for (int64_t i = n; i > 0; i--) {
        /* Of the columns up to here take the last that is left across or down; those after it are inserted. */
        table->columns[i] = j;
        Steps steps = table->steps[i];
        int bit = (int)(j - table->forward[i].middle) + BEAM;
        int last = highest_bit((steps.across | steps.down) & (((uint64_t)2 << bit) - 1));
        int across = last >= 0 && (steps.across >> last & 1);
        int right = across && (steps.match >> last & 1);
        table->wrong_h[i] = !right;
        j -= bit - last + across;
        if (right) {
            table->wrong_r[j + 1] = 0;
        }
    }
    table->columns[0] = j;
    /* So many rows were left before column j as the path enters before it. */
    int64_t row = 0;
    for (int64_t column = 0; column <= m; column++) {
        while (row <= n && table->columns[row] < column) {
            row++;
        }
        table->before[column] = row;
    }
    for (int64_t i = 1; i <= n; i++) {
        table->wrong_h[i] += table->wrong_h[i - 1];
    }
    for (int64_t column = 1; column <= m; column++) {
        table->wrong_r[column] += table->wrong_r[column - 1];
    }
}

/* The edit distance after a swap: its rows alone are new, and meet those of the table read from the end. */
int64_t swapped_distance(const Table *table, Swap swap) {
    Steps unused;
    Row row = table->rows[swap.a];
    int64_t i = swap.a;
    for (int64_t word = swap.b; word < swap.c; word++) {
        Moves moves = table->forward[++i];
        const uint64_t *bits = table->bits + table->numbers[word] * table->width;
        row = next_row(row, moves, window(bits, moves), &unused);
    }
    for (int64_t word = swap.a; word < swap.b; word++) {
        Moves moves = table->forward[++i];
        const uint64_t *bits = table->bits + table->numbers[word] * table->width;
        row = next_row(row, moves, window(bits, moves), &unused);
    }
    return joined(row, table->back[table->n - swap.c], table->forward[swap.c].middle, table->m);
}

/* Makes the swap. */
static void exchange_words(int64_t *words, int64_t *spare, Swap swap) {
    int64_t left = swap.b - swap.a, right = swap.c - swap.b;
    memcpy(spare, words + swap.a, (size_t)left * sizeof(int64_t));
    memmove(words + swap.a, words + swap.b, (size_t)right * sizeof(int64_t));
    memcpy(words + swap.a + right, spare, (size_t)left * sizeof(int64_t));
}

void exchange(Table *table, Swap swap) {
    exchange_words(table->h, table->spare, swap);
    exchange_words(table->numbers, table->spare, swap);
}

void take_hypothesis(Table *table, Texts texts, int64_t row) {
    table->n = length_of(texts, row);
    memcpy(table->h, row_of(texts, row), (size_t)table->n * sizeof(int64_t));
    for (int64_t i = 0; i < table->n; i++) {
        table->numbers[i] = table->number[table->h[i]];
    }
    forward_moves(table->forward, table->n, table->m);
    backward_moves(table->backward, table->forward, table->n, table->m);
}
