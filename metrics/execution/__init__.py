"""Running a scorer: distinct texts represented once, batches, a cache, and what the work took."""
