"""Training the parser of discourse trees on a treebank. Decoding imports none of it."""
