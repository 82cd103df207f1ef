"""Metrics that read texts with a neural model, and what their checkpoints need."""
