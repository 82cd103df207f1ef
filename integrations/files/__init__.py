"""Strict JSON, the lines of one list, and entries of lists or errors."""
