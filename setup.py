"""Where the package's folders are found; everything else is declared in pyproject.toml.

The folders `metrics`, `rerank`, `integrations` and `configs` stand at the top of the repository and are linked into
`src/discorank`, so that whoever reads `src` (an editable install, a type checker, an editor) sees one whole package.
Where links cannot be checked out, the folders are mapped into the package instead.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup

FOLDERS = ("metrics", "rerank", "integrations", "configs")
LINKED = {"": "src"}
MAPPED = {"discorank": "src/discorank", **{f"discorank.{folder}": folder for folder in FOLDERS}}

face = Path(__file__).parent / "src" / "discorank"
are_linked = all((face / folder).is_dir() for folder in FOLDERS)
setup(package_dir=LINKED if are_linked else MAPPED)
