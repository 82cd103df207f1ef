"""Offline system selection: scores of whole systems, tests between them, and which metrics agree with people."""
