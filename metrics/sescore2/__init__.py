"""SEScore2 (Xu et al. 2023): a metric trained on texts with synthetic mistakes, without human ratings.

Texts become training pairs in stages: `embedding`, `neighbours`, `edits`, `sampling` and `severity` each do one step,
`stages` keeps what they made on disk, `synthesis` runs them, `training` fits the model, `metric` uses it.
"""
