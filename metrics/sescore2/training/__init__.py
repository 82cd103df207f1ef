"""Training of SEScore2: synthetic mistakes of known severity, and a regression on them. Decoding imports none of it."""
