"""Encoders and decoders shared by the neural metrics: files, texts as tokens, attention, checkpoints."""
