"""Training the classifier of discourse roles. Decoding imports none of it."""
