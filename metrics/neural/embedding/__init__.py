"""Cosines of sentence embeddings, from folders of sentence-transformers."""
