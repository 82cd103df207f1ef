"""Texts and documents, sentence by sentence; splitting them; bounded reading of text lines."""
