"""Formats of candidate lists, systems files and what stands beside them, one module each."""
