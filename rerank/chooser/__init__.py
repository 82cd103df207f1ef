"""Choosing by systems, consensus and features of the texts together, as far as judgements go."""
