"""The folder for fairseq's --user-dir.

Importing it registers the task ``discorank_translation``, and allows checkpoints to be loaded with any task.
"""

import discorank.integrations.fairseq.task as task

task.register()
