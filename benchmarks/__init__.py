"""Measurements; most modules are commands, run from the root of the repository as ``python -m benchmarks.FOLDER.NAME``.

`speed` times against the plain way or a named peer, `scale` measures large inputs and Ray, `serving` the server,
`choice_quality` asks if better texts are chosen, and `metric_quality` how good metrics are; `structure` measures the
code itself, `reliability` disturbs runs and says which promises were kept, and `support` is what these share.
`same_outputs` measures nothing: it proves that two versions of the package write the same, byte by byte.
"""
