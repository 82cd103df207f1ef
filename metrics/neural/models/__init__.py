"""Encoders and decoders of the neural metrics: tokens in context, attention, passes; `files` has their files."""
