"""The logger of the library, ``discorank``: silent until the program that uses it says where its records go.

    logging.basicConfig(level=logging.INFO)

INFO tells what is loaded and how far a decoder is; WARNING what is tried again. Warnings of Python (texts that were
cut, caches that were mended) stay warnings: ``logging.captureWarnings(True)`` brings them here as well.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("discorank")
LOG.addHandler(logging.NullHandler())
