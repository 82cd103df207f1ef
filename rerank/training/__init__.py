"""Weights of metrics, tuned on what people prefer."""
