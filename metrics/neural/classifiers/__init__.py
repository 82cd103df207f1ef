"""Metrics whose model is a sequence classifier: reward models, and entailment."""
