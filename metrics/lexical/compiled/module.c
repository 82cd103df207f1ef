/* The module `_kernels`: what `compiled` offers in C. */
#include "kernels.h"

static PyMethodDef methods[] = {
    {"ngram_matches", ngram_matches, METH_VARARGS, "Clipped n-gram matches of small lists."},
    {"shift_edits", shift_edits, METH_VARARGS, "Fewest edits when blocks of words may move."},
    {"weighted_common", weighted_common, METH_VARARGS, "Weighted longest common subsequences."},
    {"word_alignments", word_alignments, METH_VARARGS, "One-to-one alignments of words."},
    {NULL, NULL, 0, NULL},
};

/* How the functions are called; `compiled` leaves a module of another version alone. */
static int add_version(PyObject *module) {
    return PyModule_AddIntConstant(module, "VERSION", 1);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_version}, {0, NULL}};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernels",
    .m_doc = "Kernels of lexical metrics in C; `compiled` says how they are called.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernels(void) {
    return PyModuleDef_Init(&module);
}
