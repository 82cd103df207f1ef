"""Seconds and memory against the plain way or a named peer."""
