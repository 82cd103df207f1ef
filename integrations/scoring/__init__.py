"""Forced scoring: log-probabilities of texts that are there already, written into their lists."""
