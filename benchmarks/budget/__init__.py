"""Fewer pairs: matrices of real lists, replays of every method on them, and what was lost."""
