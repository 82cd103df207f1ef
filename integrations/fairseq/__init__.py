"""fairseq: its logs as candidate lists, a task that chooses while it generates, and choices through its hub interface.

Reading logs needs no fairseq. ``python -m discorank.integrations.fairseq`` prints the folder for ``--user-dir``.
"""
