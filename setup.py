"""Where the package's folders are found; everything else is declared in pyproject.toml.

The folders `metrics`, `rerank`, `integrations`, `configs`, and what is data alone, `examples` and the pages of `docs`,
stand at the top of the repository and are linked into `src/discorank`, so that whoever reads `src` (an editable
install, a type checker, an editor) sees one whole package.
Where links cannot be checked out, the folders are mapped into the package instead. The kernels in C are optional:
without a compiler, or with DISCORANK_PURE=1, the package is built without them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

FOLDERS = ("metrics", "rerank", "integrations", "configs", "examples", "docs")
LINKED = {"": "src"}
MAPPED = {"discorank": "src/discorank", **{f"discorank.{folder}": folder for folder in FOLDERS}}

# Bytes are those of plain products and sums: none are fused.
COMPILED = [] if sys.platform == "win32" else ["-std=c11", "-O3", "-ffp-contract=off"]


class BuildWithoutPaths(build_ext):
    """Links the kernels without the library folders of the interpreter that builds them, which other machines lack."""

    def build_extensions(self) -> None:
        """Builds them, with no search path in the linker's command."""
        command = getattr(self.compiler, "linker_so", None)
        if command is not None:
            self.compiler.linker_so = [word for word in command if "-rpath" not in word]
        super().build_extensions()


class BuildWithoutTools(build_py):
    """Leaves out what writes pages and examples, which a package has already written."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of a package; of a folder of data only the server to try others with."""
        modules = super().find_package_modules(package, package_dir)
        if package not in ("discorank.examples", "discorank.docs"):
            return list(modules)
        return [module for module in modules if module[1] == "fake_upstream"]


face = Path(__file__).parent / "src" / "discorank"
are_linked = all((face / folder).is_dir() for folder in FOLDERS)

root = Path(__file__).parent
c_files = sorted((root / "metrics" / "lexical" / "compiled").glob("*.c"))
headers = sorted((root / "metrics" / "lexical" / "compiled").glob("*.h"))
kernels = Extension(
    "discorank.metrics.lexical.compiled._kernels",
    sources=[path.relative_to(root).as_posix() for path in c_files],
    depends=[path.relative_to(root).as_posix() for path in headers],
    extra_compile_args=COMPILED,
    py_limited_api=True,
    optional=True,
)
inner_products = Extension(
    "discorank.metrics.neural.models._inner_products",
    sources=["metrics/neural/models/inner_products.c"],
    extra_compile_args=COMPILED,
    py_limited_api=True,
    optional=True,
)
# where the pages of this build are to be read, if anywhere: the metadata names nothing that is not there
pages = os.environ.get("DISCORANK_DOCS_URL")
is_pure = bool(os.environ.get("DISCORANK_PURE"))
setup(
    project_urls={"Documentation": pages} if pages else {},
    cmdclass={"build_ext": BuildWithoutPaths, "build_py": BuildWithoutTools},
    package_dir=LINKED if are_linked else MAPPED,
    ext_modules=[] if is_pure else [kernels, inner_products],
    options={} if is_pure else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
