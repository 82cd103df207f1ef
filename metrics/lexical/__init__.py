"""Metrics that count what texts share: n-grams, edits, subsequences."""
