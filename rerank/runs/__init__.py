"""Runs: what is written of decided lists, and how a run resumes after it was killed."""
