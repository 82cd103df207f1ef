"""Files as bounded lines and strict JSON, and entries of lists or errors."""
