"""How the code is built, in figures, how two versions keep pace, and whether a fresh install works."""
