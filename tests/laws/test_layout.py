"""The layout's promises: which folders are packaged, which import which, what importing costs."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import discorank

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "metrics": {"metrics"},
    "rerank": {"rerank", "metrics"},
    "integrations": {"integrations", "rerank", "metrics"},
    "configs": {"configs"},
}


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_every_folder_is_packaged() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {name: ROOT / folder for name, folder in settings["package-dir"].items()}
    found = set()
    for name, folder in folders.items():
        for init in folder.rglob("__init__.py"):
            found.add(".".join([name, *init.parent.relative_to(folder).parts]))
    assert found == set(settings["packages"])


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder: str) -> None:
    for path in python_files(folder):
        depth = len(path.relative_to(ROOT).parts) - 1
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level <= depth + 1
                if node.level == depth + 1:
                    target = (node.module or "").split(".")[0]
                    assert target in MAY_IMPORT[folder], f"{path} imports {target}"
            assert not (
                isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discorank")
            )


def test_no_top_level_package_of_ours() -> None:
    assert "metrics" not in sys.modules
    assert "rerank" not in sys.modules


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_importing_is_light() -> None:
    heavy = ["torch", "transformers", "numpy", "sacrebleu", "pydantic", "ray", "scipy"]
    assert (
        run_python(
            f"import discorank, sys; print([m for m in {heavy} if m in sys.modules])"
        ).strip()
        == "[]"
    )


def test_decoding_loads_no_torch() -> None:
    code = (
        "import sys, discorank; discorank.decode(['a b', 'a c'], utility='chrf + bleu');"
        "print([m for m in ('torch', 'transformers', 'ray', 'scipy') if m in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


def test_help_is_light() -> None:
    code = "import sys; from discorank.cli.main import main; main(['--help']); print('numpy' in sys.modules)"
    assert run_python(code).endswith("False\n")


def test_face_is_complete() -> None:
    for name in discorank.__all__:
        assert getattr(discorank, name) is not None
    assert set(discorank.__all__) <= set(dir(discorank))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        discorank.nothing  # noqa: B018


def modules() -> list[str]:
    names = ["discorank"]
    names += [
        m.name
        for m in pkgutil.walk_packages(discorank.__path__, "discorank.")
        if m.name != "discorank.__main__"
    ]
    for folder in MAY_IMPORT:
        package = importlib.import_module(f"discorank.{folder}")
        names += [m.name for m in pkgutil.walk_packages(package.__path__, f"discorank.{folder}.")]
    return sorted(set(names))


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} says nothing of itself"
    assert doctest.testmod(module).failed == 0


def test_nothing_unfinished_or_unsafe() -> None:
    bad = re.compile(
        r"NotImplementedError|TODO|FIXME|XXX|pickle\.load|trust_remote_code=True|\beval\(|weights_only=False"
    )
    for folder in (*MAY_IMPORT, "src"):
        for path in python_files(folder):
            assert not bad.search(path.read_text()), path
