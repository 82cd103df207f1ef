"""Discourse trees: reading, writing and parsing them, and the kernels that compare them."""
