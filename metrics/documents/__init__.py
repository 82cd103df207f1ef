"""Wrappers of metrics that read whole documents in parts: aligned, in windows, split into sentences."""
