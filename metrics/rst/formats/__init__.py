"""Formats of discourse trees; each module reads one, `files` finds out which it is."""
