/* Clipped n-gram matches of all pairs of small lists, for all orders after one sort.
 *
 * Every position of a list is one integer: the symbols from there on, the first one highest, and below them its text.
 * Sorted, the n-grams of any order are runs of neighbours. Each (n-gram, k-th occurrence in its text) that texts share
 * is a column of bits with a row per text; what two texts share is the bits set in both rows. */
#include "kernels.h"

#define WORDS 8 /* of 64 bits, in a row */
#define COLUMNS (64 * WORDS)

/* The processor's own count of set bits where it has one, found when the module is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__)
#define FOR_SEVERAL_PROCESSORS __attribute__((target_clones("arch=icelake-server", "popcnt", "default")))
#else
#define FOR_SEVERAL_PROCESSORS
#endif
#if defined(__GNUC__) || defined(__clang__)
#define COUNT_BITS(bits) ((uint32_t)__builtin_popcountll(bits))
#else
static uint32_t count_bits(uint64_t bits) {
    uint32_t count = 0;
    for (; bits; bits &= bits - 1) {
        count++;
    }
    return count;
}
#define COUNT_BITS(bits) count_bits(bits)
#endif

/* A list of texts, hypotheses first. In a square one these are the references too, from text 0 on. */
typedef struct {
    int64_t num_texts, num_hypotheses, first_reference;
    int64_t num_references;
    int square;
} List;

/* What all lists share, as large as the largest needs it. */
typedef struct {
    uint64_t *keys, *sorted; /* [positions of the longest list] */
    uint64_t *rows;          /* [texts, WORDS] */
    uint32_t *matches;       /* [H, R] */
    uint32_t *counts;        /* [texts] of one n-gram */
    int64_t *having;         /* [texts] those that have it */
    int64_t *number;         /* [symbols] number of a symbol in its list, */
    int64_t *list_of_number; /* and which list that was */
    uint32_t digits[8][256]; /* how often each digit comes, then where the next key with it goes */
} Work;

/* How many bits the number takes. */
static int bits_of(uint64_t number) {
    int bits = 0;
    for (; number; number >>= 1) {
        bits++;
    }
    return bits;
}

/* Adds what the texts of every pair share in the columns so far, and clears these. */
FOR_SEVERAL_PROCESSORS
static void add_products(Work *work, List list) {
    for (int64_t h = 0; h < list.num_hypotheses; h++) {
        const uint64_t *of_h = work->rows + h * WORDS;
        uint32_t *matches = work->matches + h * list.num_references;
        /* The other half of a square list is the same. */
        for (int64_t r = list.square ? h + 1 : 0; r < list.num_references; r++) {
            const uint64_t *of_r = work->rows + (list.first_reference + r) * WORDS;
            uint32_t shared = 0;
            for (int word = 0; word < WORDS; word++) {
                shared += COUNT_BITS(of_h[word] & of_r[word]);
            }
            matches[r] += shared;
        }
    }
    memset(work->rows, 0, (size_t)(list.num_texts * WORDS) * sizeof(uint64_t));
}

/* The same of one n-gram that some text has more often than a row has columns. */
static void add_often(Work *work, List list) {
    for (int64_t h = 0; h < list.num_hypotheses; h++) {
        for (int64_t r = list.square ? h + 1 : 0; r < list.num_references; r++) {
            uint32_t of_h = work->counts[h], of_r = work->counts[list.first_reference + r];
            work->matches[h * list.num_references + r] += of_h < of_r ? of_h : of_r;
        }
    }
}

/* Sorts `count` keys by all bits from `lowest` up to `highest`, 8 at a time. */
static void sort_keys(Work *work, int64_t count, int lowest, int highest) {
    /* Count the digits of all passes in one. */
    int passes = (highest - lowest + 7) / 8;
    memset(work->digits, 0, (size_t)passes * sizeof(work->digits[0]));
    for (int64_t p = 0; p < count; p++) {
        uint64_t key = work->keys[p] >> lowest;
        for (int pass = 0; pass < passes; pass++) {
            work->digits[pass][key & 255]++;
            key >>= 8;
        }
    }
    /* Pass by pass, from the lowest digit, keys go behind those with the same one and all with lower ones. */
    for (int pass = 0; pass < passes; pass++) {
        uint32_t before = 0, *digits = work->digits[pass];
        for (int digit = 0; digit < 256; digit++) {
            uint32_t here = digits[digit];
            digits[digit] = before;
            before += here;
        }
        int shift = lowest + 8 * pass;
        for (int64_t p = 0; p < count; p++) {
            uint64_t key = work->keys[p];
            work->sorted[digits[key >> shift & 255]++] = key;
        }
        uint64_t *spare = work->keys;
        work->keys = work->sorted;
        work->sorted = spare;
    }
}

/* The matches of one order into `work->matches`, from sorted keys with `shift` bits below its symbols. Keys of
 * n-grams that come once are dropped: no longer one from there comes again. Returns how many stay. */
static int64_t one_order(Work *work, List list, int64_t count, int shift, uint64_t last_symbol,
                         uint64_t text_mask) {
    int64_t kept = 0;
    uint32_t column = 0;
    memset(work->matches, 0,
           (size_t)(list.num_hypotheses * list.num_references) * sizeof(uint32_t));
    for (int64_t start = 0, end; start < count; start = end) {
        /* Neighbours with the same symbols; 0 stands after the end of a text. */
        uint64_t gram = work->keys[start] >> shift;
        end = start + 1;
        while (end < count && work->keys[end] >> shift == gram) {
            end++;
        }
        if (end - start < 2 || !(gram & last_symbol)) {
            continue;
        }
        /* Count it in every text, note the texts that have it, and keep its keys. */
        int64_t num_having = 0;
        uint32_t most = 0;
        for (int64_t p = start; p < end; p++) {
            uint64_t key = work->keys[p];
            int64_t text = (int64_t)(key & text_mask);
            work->having[num_having] = text;
            num_having += work->counts[text]++ == 0;
            most = work->counts[text] > most ? work->counts[text] : most;
            work->keys[kept++] = key;
        }
        /* A text that has it k times gets k bits in a row, from the same column in every text. */
        if (most > COLUMNS) {
            add_often(work, list);
        } else if (num_having > 1) {
            if (column + most > COLUMNS) {
                add_products(work, list);
                column = 0;
            }
            for (int64_t t = 0; t < num_having; t++) {
                uint64_t *row = work->rows + work->having[t] * WORDS;
                uint32_t last = column + work->counts[work->having[t]];
                for (uint32_t k = column; k < last; k++) {
                    row[k >> 6] |= (uint64_t)1 << (k & 63);
                }
            }
            column += most;
        }
        /* The counts are zero again for the next n-gram. */
        for (int64_t t = 0; t < num_having; t++) {
            work->counts[work->having[t]] = 0;
        }
    }
    if (column) {
        add_products(work, list);
    }
    return kept;
}

/* Writes the matches of order `n`; of a square list only the upper half was counted. */
static void write_order(const Work *work, List list, const int64_t *offsets, int64_t n,
                        double *out) {
    int64_t num_references = list.num_references;
    for (int64_t h = 0; h < list.num_hypotheses; h++) {
        for (int64_t r = 0; r < num_references; r++) {
            int lower = list.square && r < h;
            out[h * num_references + r] =
                work->matches[lower ? r * num_references + h : h * num_references + r];
        }
        if (list.square) { /* a text shares all with itself */
            int64_t own = offsets[h + 1] - offsets[h] - n + 1;
            out[h * num_references + h] = own > 0 ? (double)own : 0;
        }
    }
}

/* All orders of one list; returns whether its symbols fit into the keys. */
static int one_list(Work *work, List list, int64_t number_of_list, const int64_t *symbols,
                    const int64_t *offsets, int64_t order, double *out, int64_t stride) {
    if (!list.num_texts) {
        return 1;
    }
    /* Number the symbols of the list from 1 on. */
    uint64_t num_symbols = 0;
    for (int64_t p = offsets[0]; p < offsets[list.num_texts]; p++) {
        if (work->list_of_number[symbols[p]] != number_of_list) {
            work->list_of_number[symbols[p]] = number_of_list;
            work->number[symbols[p]] = (int64_t)++num_symbols;
        }
    }
    int symbol_bits = bits_of(num_symbols), text_bits = bits_of((uint64_t)list.num_texts - 1);
    int bits = symbol_bits * (int)order;
    if (bits + text_bits > 64) {
        return 0;
    }
    /* Each position's key holds the first symbols of the next one's, from the end of a text on. */
    int64_t count = 0;
    for (int64_t text = 0; text < list.num_texts && bits; text++) {
        uint64_t key = 0;
        for (int64_t p = offsets[text + 1] - 1; p >= offsets[text]; p--) {
            key = (uint64_t)work->number[symbols[p]] << (bits - symbol_bits) | key >> symbol_bits;
            work->keys[count++] = key << text_bits | (uint64_t)text;
        }
    }
    /* Sorted once by all symbols: the n-grams of every order are runs. */
    sort_keys(work, count, text_bits, text_bits + bits);
    uint64_t last_symbol = ((uint64_t)1 << symbol_bits) - 1;
    uint64_t text_mask = ((uint64_t)1 << text_bits) - 1;
    for (int64_t n = 1; n <= order; n++) {
        int shift = text_bits + symbol_bits * (int)(order - n);
        count = one_order(work, list, count, shift, last_symbol, text_mask);
        write_order(work, list, offsets, n, out + (n - 1) * stride);
    }
    return 1;
}

/* Makes room; returns -1 if there is none. */
static int work_begin(Work *work, int64_t longest_list, int64_t most_texts, int64_t most_cells,
                      int64_t num_symbols) {
    work->keys = malloc((size_t)(longest_list + 1) * sizeof(uint64_t));
    work->sorted = malloc((size_t)(longest_list + 1) * sizeof(uint64_t));
    work->rows = calloc((size_t)(most_texts * WORDS + 1), sizeof(uint64_t));
    work->matches = malloc((size_t)(most_cells + 1) * sizeof(uint32_t));
    work->counts = calloc((size_t)(most_texts + 1), sizeof(uint32_t));
    work->having = malloc((size_t)(most_texts + 1) * sizeof(int64_t));
    work->number = malloc((size_t)(num_symbols + 1) * sizeof(int64_t));
    work->list_of_number = malloc((size_t)(num_symbols + 1) * sizeof(int64_t));
    if (!work->keys || !work->sorted || !work->rows || !work->matches || !work->counts ||
        !work->having || !work->number || !work->list_of_number) {
        return -1;
    }
    for (int64_t symbol = 0; symbol <= num_symbols; symbol++) {
        work->list_of_number[symbol] = -1;
    }
    return 0;
}

static void work_end(Work *work) {
    free(work->keys);
    free(work->sorted);
    free(work->rows);
    free(work->matches);
    free(work->counts);
    free(work->having);
    free(work->number);
    free(work->list_of_number);
}

/* ngram_matches(symbols, offsets, hypotheses, references, num_symbols, order, out): the matches of every order, [order,
 * cells]. Symbols are 0 to `num_symbols`. A list has so many hypotheses and so many references, -1 if it is square; its
 * texts follow one another. Returns whether all lists were small enough. */
PyObject *ngram_matches(PyObject *self, PyObject *arguments) {
    Py_buffer symbols, offsets, hypotheses, references, out;
    long long num_symbols, order;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*LLw*", &symbols, &offsets, &hypotheses, &references,
                          &num_symbols, &order, &out)) {
        return NULL;
    }
    const int64_t *of_h = hypotheses.buf, *of_r = references.buf;
    int64_t num_lists = hypotheses.len / 8, stride = out.len / 8 / (order > 0 ? order : 1);
    /* Room for the largest list. */
    int64_t longest = 0, most_texts = 0, most_cells = 0;
    const int64_t *starts = offsets.buf;
    for (int64_t l = 0; l < num_lists; l++) {
        int64_t texts = of_h[l] + (of_r[l] < 0 ? 0 : of_r[l]);
        int64_t cells = of_h[l] * (of_r[l] < 0 ? of_h[l] : of_r[l]);
        int64_t length = starts[texts] - starts[0];
        longest = length > longest ? length : longest;
        most_texts = texts > most_texts ? texts : most_texts;
        most_cells = cells > most_cells ? cells : most_cells;
        starts += texts;
    }
    /* List by list, without Python's lock, until one does not fit. */
    Work *work = calloc(1, sizeof(Work));
    int failed = work == NULL, fits = 1;
    Py_BEGIN_ALLOW_THREADS
    failed = failed || work_begin(work, longest, most_texts, most_cells, num_symbols);
    double *results = out.buf;
    starts = offsets.buf;
    for (int64_t l = 0; l < num_lists && !failed && fits; l++) {
        int square = of_r[l] < 0;
        int64_t num_references = square ? of_h[l] : of_r[l];
        int64_t texts = of_h[l] + (square ? 0 : of_r[l]);
        List list = {texts, of_h[l], square ? 0 : of_h[l], num_references, square};
        fits = one_list(work, list, l, symbols.buf, starts, order, results, stride);
        starts += texts;
        results += of_h[l] * num_references;
    }
    if (work != NULL) {
        work_end(work);
        free(work);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&symbols);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&hypotheses);
    PyBuffer_Release(&references);
    PyBuffer_Release(&out);
    if (failed) {
        return PyErr_NoMemory();
    }
    return PyBool_FromLong(fits);
}
