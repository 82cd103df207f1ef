"""Measurements: each module is a command that prints ratios measured in one run."""
