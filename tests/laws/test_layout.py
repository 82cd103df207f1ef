"""The layout's promises: which folders are packaged, which import which, what names are, what importing costs."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import assert_type

import pytest
from grimp import ImportGraph, build_graph

import discorank
from benchmarks.structure.directions import DOCUMENTED, lines_of, mass, ratchet, token_lines

ROOT = Path(__file__).parents[2]
FACE = ROOT / "src" / "discorank"
LINKED = ("metrics", "rerank", "integrations", "configs")
DATA = ("examples", "docs")  # linked too
FOLDERS = ("src", *LINKED)
SAME_NAME = {
    "__init__",
    "__main__",
    "metric",
    "settings",
    "generator",
    "command",
    "generate",
}  # one in a room


def python_files(folder: str) -> Iterator[Path]:
    """The Python files of a top-level folder, not through links."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if not any(parent.is_symlink() for parent in path.parents):
            yield path


def every_file() -> list[Path]:
    return [path for folder in FOLDERS for path in python_files(folder)]


def test_every_folder_is_packaged() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = set()
    for path in every_file():
        if path.name == "__init__.py":
            parts = path.parent.relative_to(ROOT).parts
            packages.add(".".join(parts[1:] if parts[0] == "src" else ("discorank", *parts)))
    packages |= {f"discorank.{folder}" for folder in DATA}
    assert packages == set(settings["packages"])


def test_the_package_is_whole_under_src() -> None:
    for folder in (*LINKED, *DATA):
        assert (FACE / folder).is_dir()
        assert (FACE / folder).resolve() == ROOT / folder


def test_a_checkout_without_links_builds_the_same_package(tmp_path: Path) -> None:
    names = ["setup.py", "pyproject.toml", "README.md", "LICENSE", "src", *LINKED, *DATA]
    built = []
    for kind in ("linked", "plain"):
        checkout = tmp_path / kind
        checkout.mkdir()
        for name in names:
            if (ROOT / name).is_dir():
                # not what other processes write at this moment
                compiled = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=compiled)
            else:
                shutil.copy(ROOT / name, checkout / name)
        if kind == "plain":  # what git leaves where links are not to be had
            for folder in (*LINKED, *DATA):
                (checkout / "src" / "discorank" / folder).unlink()
                (checkout / "src" / "discorank" / folder).write_text(f"../../{folder}")
        command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", "out"]
        done = subprocess.run(command, cwd=checkout, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        out = checkout / "out"
        built.append({path.relative_to(out): path.read_bytes() for path in out.rglob("*.*")})
    assert built[0] == built[1]
    assert Path("discorank/metrics/base.py") in built[0]
    for name in ("examples/demo.jsonl", "examples/nbest.moses", "docs/runs.md"):
        assert Path("discorank", name) in built[0]
    assert not [path for path in built[0] if path.suffix == ".py" and "docs" in path.parts]


def test_no_bound_of_the_ratchet_is_exceeded() -> None:
    """`python -m benchmarks.structure.directions` prints the figures beside the bounds of ratchet.toml."""
    now = ratchet(ROOT)
    assert now.exceeded() == []
    first, *others = now.parts
    tight = now._replace(parts=[first._replace(bound=first.lines - 1), *others])
    (line,) = tight.exceeded()
    assert line.startswith(f"{first.name}: {first.lines:,} > ")


# in a process of its own, as it disables all loggers that are there
LINT_IMPORTS = """
from importlinter.cli import lint_imports
raise SystemExit(lint_imports(config_filename="pyproject.toml", no_cache=True))
"""


@pytest.mark.slow
def test_lines_of_code_are_those_with_a_token() -> None:
    for path in [*every_file(), *python_files("tests"), *python_files("benchmarks")]:
        text = path.read_text()
        lines = token_lines(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                lines.difference_update(lines_of(node.body[0]))
        assert mass(path).lines == len(lines), path


def test_imports_point_one_way() -> None:
    command = [sys.executable, "-c", LINT_IMPORTS]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# what a module's docstring says that it knows nothing of: nothing it imports leads there
KNOWS_NOTHING_OF = {
    "integrations.generation.document_turns": (
        "integrations.files",
        "integrations.formats",
        "integrations.huggingface",
        "integrations.server",
    ),
    "metrics.lexical.ngrams": ("metrics.text", "metrics.scorer"),
    "metrics.lexical.word_columns": ("metrics.lexical.ngrams", "metrics.scorer"),
    "metrics.neural.models.encoder": ("metrics.text", "metrics.scorer"),
    "metrics.neural.models.files.torch_checkpoint": (
        "metrics.neural.models.encoder",
        "metrics.scorer",
    ),
    "metrics.neural.models.prompt_pass": ("metrics.neural.models.causal_lm",),
    "metrics.representations": ("metrics.text", "metrics.scorer"),
    "metrics.scorer": ("metrics.execution", "metrics.storage.line_source", "rerank"),
    "metrics.storage.bounded_inflation": ("metrics.storage.line_source",),
    "metrics.storage.line_source": ("integrations",),
    "metrics.text.texts": ("metrics.scorer", "metrics.storage.line_source"),
    "rerank.engines.ray.worker": ("rerank.engines.ray.cluster", "rerank.engines.ray.engine"),
    "rerank.lists": ("integrations", "metrics.scorer", "metrics.storage.line_source"),
    "rerank.runs.resumable": ("metrics.scorer", "rerank.lists"),
    "rerank.runs.run": ("integrations",),
}


@cache
def imports() -> ImportGraph:
    """Which module imports which."""
    return build_graph("discorank", cache_dir=None)


def test_modules_know_nothing_of_what_they_say() -> None:
    graph = imports()
    for name, unknown in KNOWS_NOTHING_OF.items():
        module = f"discorank.{name}"
        docstring = importlib.import_module(module).__doc__ or ""
        assert re.search(r"knows\s+(no|nothing|neither)\b|it\s+knows\s+nothing", docstring), name
        for other in unknown:
            chains = graph.find_shortest_chains(module, f"discorank.{other}", as_packages=True)
            assert not chains, chains


# packages that train, and what alone imports them
TRAINING = {
    "metrics.discourse.roles.training": "cli.commands.train_metrics",
    "metrics.rst.parser.training": "cli.commands.train_metrics",
    "metrics.sescore2.training": "cli.commands.train_metrics",
}


def test_decoding_imports_no_training() -> None:
    graph = imports()
    for name, command in TRAINING.items():
        package = f"discorank.{name}"
        inside = {package, *graph.find_descendants(package)}
        importers: set[str] = set()
        for module in inside:
            importers |= graph.find_modules_that_directly_import(module) - inside
        assert importers == {f"discorank.{command}"}


def test_statistics_of_wmt_stay_in_their_room() -> None:
    """They are imported by the command that prints them, and by the readers of their folders alone."""
    graph = build_graph("discorank", cache_dir=None)
    package = "discorank.rerank.selection.meta_evaluation"
    inside = {package, *graph.find_descendants(package)}
    importers: set[str] = set()
    for module in inside:
        importers |= graph.find_modules_that_directly_import(module) - inside
    outside = {
        one for one in importers if not one.startswith("discorank.integrations.formats.wmt.")
    }
    assert outside == {"discorank.cli.commands.compare.wmt_task"}


def test_module_names_are_unique() -> None:
    places = defaultdict(list)
    for path in every_file():
        places[path.stem].append(str(path.relative_to(ROOT)))
    repeated = {name: at for name, at in places.items() if len(at) > 1 and name not in SAME_NAME}
    assert repeated == {}


def test_names_say_what_a_thing_is() -> None:
    """No two public classes have one name, and no name says only that its value was given or found."""
    places = defaultdict(list)
    vague = re.compile(r"found|told|MOST_\w+|LEAST_\w+")
    somewhere = re.compile(rf"\b(?:{vague.pattern})\b")
    for path in every_file():
        text = path.read_text()
        for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE):
            places[name].append(str(path.relative_to(ROOT)))
        for node in ast.walk(ast.parse(text)) if somewhere.search(text) else ():
            for field in ("id", "arg", "attr", "name"):
                name = getattr(node, field, None)
                assert not (name and vague.fullmatch(str(name))), f"{path}: {name}"
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


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


def test_decoding_imports_what_it_needs(tmp_path: Path) -> None:
    code = (
        "import sys; from discorank.cli.main import main;"
        f"main(['decode', {str(ROOT / 'examples' / 'demo.jsonl')!r}, '-u', 'chrf',"
        f" '-o', {str(tmp_path / 'out')!r}, '--quiet']); print(*sys.modules)"
    )
    imported = set(run_python(code).split())
    others = ("pydantic", "tqdm", "importlib.metadata", "sacrebleu", "yaml", "sqlite3", "asyncio")
    own = (
        "integrations.arrow.arrow_source",
        "integrations.formats.readers.flat",
        "integrations.formats.written_lists",
        "metrics.documents",
        "metrics.execution.cache",
        "rerank.budget.budgeted",
        "rerank.budget.plan",
        "rerank.documents.document_scheduler",
        "rerank.selection",
        "rerank.training",
    )
    assert not imported & {*others, *(f"discorank.{name}" for name in own)}
    assert len([name for name in imported if name.startswith("discorank")]) < 160


def test_decoding_systems_imports_no_comparison_and_no_training(tmp_path: Path) -> None:
    systems = str(ROOT / "examples" / "systems.jsonl")
    command = ["decode", systems, "--from", "systems", "-u", "chrf", "-o", str(tmp_path / "out")]
    code = (
        f"import sys; from discorank.cli.main import main; main({command!r}); print(*sys.modules)"
    )
    imported = run_python(code).split()
    others = ("integrations.formats.wmt", "rerank.selection", "rerank.training")
    assert not [
        name for name in imported if name.startswith(tuple(f"discorank.{n}" for n in others))
    ]


def test_help_is_light() -> None:
    code = "import sys; from discorank.cli.main import main; main(['--help']); print('numpy' in sys.modules)"
    assert run_python(code).endswith("False\n")


def test_face_is_complete() -> None:
    public = vars(discorank)["__all__"]
    assert "decode" in public
    assert set(public) <= set(dir(discorank))
    for name in public:
        assert getattr(discorank, name) is not None
    missing = "nothing"
    with pytest.raises(AttributeError, match=missing):
        getattr(discorank, missing)


def test_type_checkers_see_the_package() -> None:
    ranking = discorank.decode(["a"], utility="chrf")
    assert_type(ranking, discorank.Ranking[str])
    assert_type(ranking.text, str)
    whole = discorank.decode([discorank.Document(["a"])], utility="chrf")
    assert_type(whole.text, str | discorank.Document)


def modules() -> list[str]:
    names = ["discorank"]
    walked = pkgutil.walk_packages(discorank.__path__, "discorank.")
    names += [module.name for module in walked if module.name != "discorank.__main__"]
    return sorted(set(names))


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} says nothing of itself"
    path = Path(str(module.__file__))
    if path.suffix != ".py" or ">>>" in path.read_text():
        assert doctest.testmod(module).failed == 0


def test_nothing_unfinished_or_unsafe() -> None:
    bad = re.compile(
        r"NotImplementedError|TODO|FIXME|XXX|pickle\.load|trust_remote_code=True|\beval\(|weights_only=False"
    )
    for path in every_file():
        assert not bad.search(path.read_text()), path
