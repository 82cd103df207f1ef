"""BLEURT: a regression over a reference and a hypothesis that are read together."""
