"""What all reading and writing stands on: atomic files, locks, checksums, limits, strict JSON and YAML, lines."""
