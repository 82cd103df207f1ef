"""The base of all reading and writing: atomic files, locks, checksums, limits, strict JSON and YAML, lines."""
