"""Metrics: texts and documents, the interface of a metric, and the metrics themselves."""
