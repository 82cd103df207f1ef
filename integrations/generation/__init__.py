"""Generators: prompts in, candidate lists out, documents in turns."""
