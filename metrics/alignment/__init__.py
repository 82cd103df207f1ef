"""How the units (sentences) of two texts belong together: algebra over values of many pairs of texts at once."""
