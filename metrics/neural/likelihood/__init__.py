"""Prism and BARTScore: how likely a model finds one text given another."""
