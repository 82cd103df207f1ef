/* The module `_inner_products`: inner products of rows, the same bytes for two rows whatever stands beside them.
 *
 * Eight lanes: lane j sums x[8 k + j] y[8 k + j] for k = 0, 1, ..., and the lanes are added by halves. Every product and
 * every sum is rounded by itself (fused ones are switched off), so a register may hold two, four or eight lanes: the bytes
 * are those of any processor, and of the plain path in `inner_products.py`. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* one wheel for Python 3.11 and later */
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER)
#pragma fp_contract(off)
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define LANES 8
#define MOST 4              /* rows of a tile, at most */
#define PANEL_DOUBLES 32768 /* of the rows y that stay in the cache while all x pass: 256 KiB */

typedef double Sums[MOST][MOST][LANES];

/* Sums of ROWS x COLUMNS pairs, in registers of WIDTH lanes of type V; the lanes in 8 / WIDTH turns. */
#define DEFINE_TILE(NAME, V, WIDTH, ROWS, COLUMNS, TARGET)                                        \
    TARGET static void NAME(const double *const *x, const double *const *y, int64_t d,            \
                            Sums lanes) {                                                         \
        for (int lane = 0; lane < LANES; lane += WIDTH) {                                         \
            V sums[ROWS][COLUMNS];                                                                \
            memset(sums, 0, sizeof sums);                                                         \
            for (int64_t k = lane; k < d; k += LANES) {                                           \
                V columns[COLUMNS];                                                               \
                for (int j = 0; j < COLUMNS; j++) {                                               \
                    memcpy(&columns[j], y[j] + k, sizeof(V));                                     \
                }                                                                                 \
                for (int i = 0; i < ROWS; i++) {                                                  \
                    V row;                                                                        \
                    memcpy(&row, x[i] + k, sizeof(V));                                            \
                    for (int j = 0; j < COLUMNS; j++) {                                           \
                        sums[i][j] = sums[i][j] + row * columns[j];                               \
                    }                                                                             \
                }                                                                                 \
            }                                                                                     \
            for (int i = 0; i < ROWS; i++) {                                                      \
                for (int j = 0; j < COLUMNS; j++) {                                               \
                    memcpy(&lanes[i][j][lane], &sums[i][j], sizeof(V));                           \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }

typedef struct {
    int width, rows, columns;
    void (*sums)(const double *const *x, const double *const *y, int64_t d, Sums lanes);
} Tile;

/* clang-format off */
#if defined(__GNUC__)
typedef double Two __attribute__((vector_size(16)));
DEFINE_TILE(tile_of_two, Two, 2, 4, 2, )
#if defined(__x86_64__)
typedef double Four __attribute__((vector_size(32)));
typedef double Eight __attribute__((vector_size(64)));
DEFINE_TILE(tile_of_four, Four, 4, 4, 2, __attribute__((target("avx2"))))
DEFINE_TILE(tile_of_eight, Eight, 8, 4, 4, __attribute__((target("avx512f"))))
#endif
#endif
DEFINE_TILE(tile_of_one, double, 1, 4, 2, )
/* clang-format on */

/* The widest registers that the processor has, up to `width`. */
static Tile widest(int width) {
#if defined(__GNUC__)
#if defined(__x86_64__)
    if (width >= 8 && __builtin_cpu_supports("avx512f")) {
        return (Tile){8, 4, 4, tile_of_eight};
    }
    if (width >= 4 && __builtin_cpu_supports("avx2")) {
        return (Tile){4, 4, 2, tile_of_four};
    }
#endif
    if (width >= 2) {
        return (Tile){2, 4, 2, tile_of_two};
    }
#endif
    return (Tile){1, 4, 2, tile_of_one};
}

/* The rows of a tile from `first` on; where there are too few, the last one again. */
static void rows_of_tile(const double **rows, int count, const double *x, int64_t first, int64_t n,
                         int64_t d) {
    for (int i = 0; i < count; i++) {
        int64_t row = first + i < n ? first + i : n - 1;
        rows[i] = x + row * d;
    }
}

/* Lanes to products; what is not a number is the one of a positive sign, as processors choose its sign freely. */
static void write_tile(Tile tile, Sums lanes, int64_t i, int64_t j, int64_t n, int64_t m,
                       double *products) {
    for (int row = 0; row < tile.rows && i + row < n; row++) {
        for (int column = 0; column < tile.columns && j + column < m; column++) {
            const double *l = lanes[row][column];
            double product = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
            products[(i + row) * m + j + column] = product == product ? product : NAN;
        }
    }
}

static void all_products(Tile tile, const double *x, const double *y, int64_t n, int64_t m,
                         int64_t d, double *products) {
    const double *rows[MOST], *columns[MOST];
    Sums lanes;
    int64_t panel = PANEL_DOUBLES / d / MOST * MOST;
    panel = panel < MOST ? MOST : panel;
    for (int64_t start = 0; start < m; start += panel) {
        int64_t end = start + panel < m ? start + panel : m;
        for (int64_t i = 0; i < n; i += tile.rows) {
            rows_of_tile(rows, tile.rows, x, i, n, d);
            for (int64_t j = start; j < end; j += tile.columns) {
                rows_of_tile(columns, tile.columns, y, j, m, d);
                tile.sums(rows, columns, d, lanes);
                write_tile(tile, lanes, i, j, n, m, products);
            }
        }
    }
}

/* products(x, y, d, out, width): x . y of rows [n, d] and [m, d] into [n, m]. d: above 0, a multiple of 8; width: of the
 * registers in lanes, at most. */
static PyObject *products(PyObject *self, PyObject *arguments) {
    Py_buffer x, y, out;
    long long d;
    int width;
    if (!PyArg_ParseTuple(arguments, "y*y*Lw*i", &x, &y, &d, &out, &width)) {
        return NULL;
    }
    int64_t row_bytes = d * (int64_t)sizeof(double);
    int fits = d > 0 && d % LANES == 0 && x.len % row_bytes == 0 && y.len % row_bytes == 0 &&
               out.len == x.len / row_bytes * (y.len / row_bytes) * (int64_t)sizeof(double);
    if (fits) {
        Tile tile = widest(width);
        Py_BEGIN_ALLOW_THREADS
        all_products(tile, x.buf, y.buf, x.len / row_bytes, y.len / row_bytes, d, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&x);
    PyBuffer_Release(&y);
    PyBuffer_Release(&out);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "products: sizes do not fit");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"products", products, METH_VARARGS, "Inner products of rows."},
    {NULL, NULL, 0, NULL},
};

/* How it is called, and the widest registers; `inner_products.py` leaves a module of another version alone. */
static int add_constants(PyObject *module) {
    int failed = PyModule_AddIntConstant(module, "VERSION", 1);
    return failed ? failed : PyModule_AddIntConstant(module, "WIDTH", widest(LANES).width);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_constants}, {0, NULL}};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_inner_products",
    .m_doc = "Inner products of rows in one order; `inner_products` says how they are called.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__inner_products(void) {
    return PyModuleDef_Init(&module);
}
