"""Proves that two versions of discorank do the same: runs the same commands with both, and compares all they write.

    python -m benchmarks.same_outputs BEFORE AFTER [--inputs CHECKOUT] [--keep DIR] [--only NAME ...]

BEFORE and AFTER are folders with an importable package ``discorank``: what ``pip install --no-deps --target DIR .``
makes, or the ``src`` of a checkout. Demo files and the tiny models of the tests come from CHECKOUT (this one if not
given); everything else that is read is made here. Of every command the exit code, stdout, stderr and all files written
are compared byte by byte; of an sqlite database the rows are. Times are nearly all that may differ: `comparing` names
what may, each with its reason. Both versions run in a folder of the same path, one after the other, so that paths need
no exception. What AFTER goes on with (runs that were killed, models that were trained) is also what BEFORE has left.

``--only`` takes names of commands, and patterns such as ``'decode-*'``; what they need runs too. ``--keep`` leaves the
outputs of both in DIR/before and DIR/after. Prints a line per command; exits with 1 if anything differs, but for what
``--meant`` names. Takes a few minutes on two cores; `since` compares a sample with an earlier commit, in a minute.

`commands` reads ``commands.txt``, `families` adds what runs with every subcommand or metric; `inputs` writes what is
read; `running` runs, `outputs` collects, `comparing` compares.
"""
