/* Tercom's search: edits between two texts when blocks of words may move, as `tercom` and `beam_pairs` define it. */
#include "edit_table.h"

#define SHIFT_WORDS 10 /* Tercom's limits */
#define SHIFT_DISTANCE 50
#define TRIED_SHIFTS 1000
#define SLOTS 4096 /* of the swaps that were measured; more than twice those that are tried */

typedef struct {
    int64_t start, length, target;
} Shift;

typedef struct {
    Swap swap;
    int64_t round, distance;
} Measured;

typedef struct {
    Table table;
    Measured *measured; /* [SLOTS] */
    int64_t round;
    Shift *shifts; /* [TRIED_SHIFTS + SHIFT_WORDS + 1] */
} Search;

static int search_begin(Search *search, int64_t num_values, int64_t longest) {
    search->measured = malloc(SLOTS * sizeof(Measured));
    search->shifts = malloc((TRIED_SHIFTS + SHIFT_WORDS + 1) * sizeof(Shift));
    if (table_begin(&search->table, num_values, longest) || !search->measured ||
        !search->shifts) {
        return -1;
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        search->measured[slot].round = -1;
    }
    return 0;
}

static void search_end(Search *search) {
    table_end(&search->table);
    free(search->measured);
    free(search->shifts);
}

/* The shifts of one block; returns how many there are then. */
static int64_t shifts_of(Search *search, int64_t start, int64_t r, int64_t length, int64_t count) {
    const int64_t *before = search->table.before;
    for (int64_t offset = 0; offset <= length; offset++) {
        int64_t target = before[r + offset];
        if (offset == 0 || target != before[r + offset - 1]) {
            Shift shift = {start, length, target};
            search->shifts[count++] = shift;
        }
    }
    return count;
}

/* The shifts that Tercom tries: blocks that stand in the reference too, with an edit on either side, elsewhere. Returns
 * how many, or 0 if with those before it would have tried enough, as `tried` then says. */
static int64_t list_shifts(Search *search, int64_t *tried) {
    const Table *table = &search->table;
    int64_t count = 0, num_blocks = 0;
    for (int64_t i = 0; i < table->n; i++) {
        int64_t j = table->places.first[table->h[i]];
        for (; j >= 0; j = table->places.next[j]) {
            if (i - j > SHIFT_DISTANCE || j - i > SHIFT_DISTANCE) {
                continue;
            }
            int64_t aligned = table->before[j + 1];
            for (int64_t length = 1; length <= SHIFT_WORDS; length++) {
                int64_t h_end = i + length, r_end = j + length;
                if (h_end > table->n || r_end > table->m ||
                    table->h[h_end - 1] != table->r[r_end - 1]) {
                    break;
                }
                int edited = table->wrong_h[h_end] > table->wrong_h[i] &&
                             table->wrong_r[r_end] > table->wrong_r[j];
                if (!edited || (aligned > i && aligned <= h_end)) {
                    continue;
                }
                num_blocks++;
                if (*tried + num_blocks >= TRIED_SHIFTS || *tried + count >= TRIED_SHIFTS) {
                    *tried = TRIED_SHIFTS;
                    return 0;
                }
                count = shifts_of(search, i, j, length, count);
            }
        }
    }
    *tried += count;
    return *tried < TRIED_SHIFTS ? count : 0;
}

/* A shift as an exchange of neighbouring blocks. */
static Swap swap_of(Shift shift, int64_t n) {
    int64_t end = shift.start + shift.length;
    if (shift.target < shift.start) { /* the words between target and start give way */
        Swap swap = {shift.target, shift.start, end};
        return swap;
    }
    /* Those after the block, up to the target, or if that is within the block by as many words as it has. */
    int64_t right = shift.target > end ? shift.target : shift.target + shift.length;
    Swap swap = {shift.start, end, right < n ? right : n};
    return swap;
}

/* The same, measured once in a round. */
static int64_t remembered_distance(Search *search, Swap swap) {
    uint64_t key = (uint64_t)swap.a * 1000003 + (uint64_t)swap.b * 10007 + (uint64_t)swap.c;
    size_t slot = (size_t)((key * 0x9e3779b97f4a7c15) >> 52);
    for (;; slot = (slot + 1) & (SLOTS - 1)) {
        Measured *here = &search->measured[slot];
        if (here->round != search->round) {
            here->swap = swap;
            here->round = search->round;
            here->distance = swapped_distance(&search->table, swap);
            return here->distance;
        }
        if (here->swap.a == swap.a && here->swap.b == swap.b && here->swap.c == swap.c) {
            return here->distance;
        }
    }
}

/* Of equal gains the longest block, then its earliest start, then its earliest target wins. */
static int is_before(Shift shift, Shift other) {
    if (shift.length != other.length) {
        return shift.length > other.length;
    }
    return shift.start != other.start ? shift.start < other.start : shift.target < other.target;
}

/* Makes the shift that gains most; returns what it gains. */
static int64_t best_shift(Search *search, int64_t distance, int64_t most, int64_t *tried) {
    align(&search->table);
    int64_t count = list_shifts(search, tried), gain = 0;
    Shift best = {0, 0, 0};
    Swap made = {0, 0, 0};
    search->round++;
    for (int64_t s = 0; s < count; s++) {
        Shift shift = search->shifts[s];
        Swap swap = swap_of(shift, search->table.n);
        if (swap.a >= swap.b || swap.b >= swap.c) {
            continue;
        }
        int64_t gained = distance - remembered_distance(search, swap);
        if (gained > gain || (gained == gain && gain > 0 && is_before(shift, best))) {
            gain = gained;
            best = shift;
            made = swap;
            if (gain == most) { /* no other shift can follow: whichever it is, the edits are these */
                break;
            }
        }
    }
    if (gain > 0) {
        exchange(&search->table, made);
    }
    return gain;
}

/* Edits after all shifts that pay; `floor` is a lower bound. */
static int64_t fewest_edits(Search *search, int64_t floor) {
    int64_t edits = fill_forward(&search->table);
    int64_t distance = edits, tried = 0;
    while (distance > floor) {
        fill_backward(&search->table);
        int64_t gain = best_shift(search, distance, distance - floor, &tried);
        if (gain <= 0) {
            break;
        }
        edits -= gain - 1;
        distance -= gain;
        if (distance > floor) {
            fill_forward(&search->table);
        }
    }
    return edits;
}

/* shift_edits(values, offsets, num_values, longest, h, r, edits): the fewest edits of rows h and r, [pairs], none empty and
 * r at most 16 times as long; `edits` holds lower bounds before. Pairs of one r should follow one another. */
PyObject *shift_edits(PyObject *self, PyObject *arguments) {
    Py_buffer values, offsets, h, r, edits;
    long long num_values, longest;
    if (!PyArg_ParseTuple(arguments, "y*y*LLy*y*w*", &values, &offsets, &num_values, &longest, &h,
                          &r, &edits)) {
        return NULL;
    }
    Texts texts = {values.buf, offsets.buf};
    const int64_t *rows_h = h.buf, *rows_r = r.buf;
    int64_t num_pairs = h.len / 8, *results = edits.buf;
    Search search = {0};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = search_begin(&search, num_values, longest);
    for (int64_t p = 0; p < num_pairs && !failed; p++) {
        move_to(&search.table, texts, rows_r[p]);
        take_hypothesis(&search.table, texts, rows_h[p]);
        results[p] = fewest_edits(&search, results[p]);
    }
    search_end(&search);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&values);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&h);
    PyBuffer_Release(&r);
    PyBuffer_Release(&edits);
    if (failed) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}
