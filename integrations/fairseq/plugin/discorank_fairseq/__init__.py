"""The folder for fairseq's --user-dir: importing it registers the task ``discorank_translation``."""

import discorank.integrations.fairseq.task as task

task.register()
