"""Judges: metrics that ask a model on a server, in words, how good a text is, and read its answer.

The settings are `judge`, the wording `prompts`, what an answer is worth `answers`, what is asked `calls`.
"""
