"""The engine over Ray: actors, blocks of lists, stages of large lists, faults."""
