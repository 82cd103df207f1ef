"""Judges: metrics that ask a model on a server, in words, how good a text is, and read its answer.

The settings are `judge`, the wording `prompt_texts`, what an answer is worth `answer_values`, what is asked `calls`.
"""
