"""SEScore2 (Xu et al. 2023): a metric trained on texts with synthetic mistakes, without human ratings.

`metric` uses a model, `training` makes it: in stages that `training.job_stages` keeps on
disk.
"""
