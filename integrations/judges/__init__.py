"""Judges: metrics that ask a model on a server, in words, how good a text is, and read its answer.

The settings are `judge`, the wording `judge_prompts`, what an answer is worth `judge_answers`, what is asked `calls`.
"""
