"""MetricX: a regression of an encoder-decoder over texts written into one input."""
