"""Likelihood under a causal language model: of a text behind a prompt, and of one text given another."""
