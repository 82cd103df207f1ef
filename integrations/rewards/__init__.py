"""Scores as rewards of trainers, by a metric in this process or on a server."""
