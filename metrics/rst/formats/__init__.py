"""Formats of discourse trees; each module reads one, `tree_files` finds out which it is."""
