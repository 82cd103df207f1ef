"""SEScore2 (Xu et al. 2023): a metric trained on texts with synthetic mistakes, without human ratings.

Texts become training pairs in stages: `embedding`, `neighbours`, `edits`, `edit_sampling` and `severity` each do one
step, `job_stages` keeps what they made on disk, `synthesis` and `labelling` run them; `regression_training` fits the
model, `metric` uses it.
"""
