"""Folders of mt-metrics-eval: test sets with outputs, people's scores and metrics' scores, read and written."""
