"""Models trained for other benchmarks, and what parts of a training are worth."""
