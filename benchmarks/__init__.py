"""Measurements; most modules are commands, run from the root of the repository as ``python -m benchmarks.FOLDER.NAME``.

`speed` times against the plain way or a named peer, `scale` measures Ray, `choice_quality` asks if better texts are
chosen, and `metric_quality` how good metrics are, `training` trains
models for other benchmarks, `structure` measures the code itself, `reliability` disturbs runs and says which promises
were kept, and `support` is what these share. `same_outputs` measures nothing: it proves that two versions of the
package write the same, byte by byte.
"""
