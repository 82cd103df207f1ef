"""Runs: what is written of decided lists, and how a run goes on after it was killed."""
