"""How the code is built, in figures: names, density of lines, modules per folder, and how two versions keep pace."""
