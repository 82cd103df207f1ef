"""Metrics against people as the WMT metrics task compares them: correlations with averages, tests, ranks, task sets."""
