"""Nothing that is read runs anything: hostile files of every form, and a canary that must not sing.

Every form is read by the command or function that users read it with. A form that discorank can use in spite of what is
in it must be used (`fine`); any other must be refused with an error of ours (`refused`).
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import pickle
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discorank import Document, load_metric
from discorank.cli.main import main
from discorank.integrations.formats.corpora import read_rated, read_texts
from discorank.metrics.discourse.roles.role_sources import Schema
from discorank.metrics.discourse.roles.training.role_training import read_labelled
from discorank.metrics.errors import DiscorankError
from discorank.metrics.rst.parser.training.treebank import read_treebank
from discorank.metrics.storage.checksums import with_checksum
from discorank.metrics.storage.json_and_yaml import read_yaml

from ..support.canary import MODULE, PICKLE, TEXTS, Canary, Runs, singing_unheard
from ..support.comparisons import LISTS, run_of
from ..support.serving import Reply, Seen, completion, serving

# A stranger's file need not have a checksum.
pytestmark = pytest.mark.filterwarnings(
    "ignore::discorank.metrics.storage.checksums.UncheckedWarning"
)

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = GOLDEN / "docmetrics" / "models"
CODE_NAME = f"{MODULE}:utility"
Read = Callable[[Path], object]


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    """Every test here ends with the assertion that nothing has imported the canary."""
    with singing_unheard(tmp_path / "canary") as canary:
        monkeypatch.chdir(canary.folder)
        yield canary


def test_the_canary_sings(tmp_path: Path) -> None:
    for sing in (lambda: load_metric(CODE_NAME), lambda: pickle.loads(PICKLE)):
        with (
            pytest.raises(AssertionError, match="sang"),
            singing_unheard(tmp_path / f"c{len(list(tmp_path.iterdir()))}"),
        ):
            sing()


def fine(*arguments: object) -> None:
    """A command that must do its work."""
    assert main([*map(str, arguments), "--quiet"]) == 0


def refused(*arguments: object) -> None:
    """A command that must end in an error about its input."""
    assert main([*map(str, arguments), "--quiet"]) in (2, 3, 4)


def written(path: Path, content: str | bytes | list[Any]) -> Path:
    """A file of text, bytes, or JSON lines."""
    if isinstance(content, list):
        content = "".join(json.dumps(row) + "\n" for row in content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# lists, systems, scores, prompts: texts

LIST_FILES: dict[str, tuple[str | list[Any], tuple[str, ...]]] = {
    "jsonl": (
        [
            {
                "id": text,
                "source": text,
                "candidates": [{"text": text, "logprob": -1, "field": text}, "a b", text],
                "references": [text],
                text: text,
            }
            for text in TEXTS
        ],
        (),
    ),
    "flat": ("".join(f"{text}\nb c\n" for text in TEXTS), ("-n", "2")),
    "moses": (
        "".join(f"{i} ||| {text} ||| F0= -1 ||| -2\n" for i, text in enumerate(TEXTS)),
        (),
    ),
    "marian": (
        "".join(f"{i} ||| {text} ||| F0= -1 ||| -2\n" for i, text in enumerate(TEXTS)),
        (),
    ),
    "fairseq": (
        "".join(
            f"S-{i}\t{text}\nH-{i}\t-1\t{text}\nD-{i}\t-1\t{text}\nP-{i}\t-1\n"
            for i, text in enumerate(TEXTS)
        ),
        (),
    ),
    "batch": (
        [
            {
                "custom_id": text,
                "response": {"status_code": 200, "body": {"choices": [{"text": text}]}},
            }
            for text in TEXTS
        ],
        (),
    ),
    "lm-eval": (
        [
            {"doc_id": i, "doc": {text: text}, "target": text, "resps": [[text]]}
            for i, text in enumerate(TEXTS)
        ],
        (),
    ),
    "systems": (
        [
            {"id": text, "source": [text], "references": {"r": [text]}, "systems": {text: [text]}}
            for text in TEXTS
        ],
        (),
    ),
}


@pytest.mark.parametrize("form", LIST_FILES)
def test_candidate_lists(tmp_path: Path, form: str) -> None:
    content, options = LIST_FILES[form]
    lists, out = written(tmp_path / "lists", content), tmp_path / "out.jsonl"
    fine("decode", lists, "--from", form, "-u", "chrf", "-o", out, *options)
    fine("check", lists, "--from", form, "-u", CODE_NAME, *options)
    fine("explain", lists, "--from", form, "-u", "chrf", *options)
    for name, data in (("pickle", PICKLE), ("pickle.gz", gzip.compress(PICKLE))):
        file = written(tmp_path / name, data)
        assert main(["check", str(file), "--from", form, *options]) in (0, 2, 3)


def test_texts_to_compare_score_and_train_on(tmp_path: Path) -> None:
    systems = [
        {
            "id": f"d{i}",
            "source": [text],
            "references": {"r": [text]},
            "systems": {TEXTS[0]: [text], "B": [text + " b"]},
            "human": {MODULE: {TEXTS[0]: [1.0 + i], "B": [0.5]}},
        }
        for i, text in enumerate(TEXTS)
    ]
    file = written(tmp_path / "systems", systems)
    saved = tmp_path / "saved"
    fine("compare", file, "-m", "chrf", "--human", MODULE, "--save", saved, "--draws", 10)
    fine("report", saved, "-o", tmp_path / "page.html")
    rows = [{"hypothesis": text, "references": [text], "document": "d"} for text in TEXTS]
    fine("score", written(tmp_path / "rows", rows), "-m", "chrf")
    corpus = written(tmp_path / "corpus", [{"text": text} for text in TEXTS])
    assert [text for text, _ in read_texts([str(corpus)], "text")] == list(TEXTS)
    rated = [{"hypothesis": text, "reference": text, "score": 1} for text in TEXTS]
    assert len(read_rated(str(written(tmp_path / "rated", rated)), "score", False)) == len(TEXTS)
    documents = [{"sentences": [text], "roles": ["a"], "id": text} for text in TEXTS * 9]
    for i, document in enumerate(documents):
        document["split"] = "test" if i % 2 else "train"
        document["id"] = f"{document['id']}{i}"
    labelled = written(tmp_path / "labelled", documents)
    assert read_labelled(labelled, Schema.of(("a", "b"), ()))


def test_answers_of_a_server(tmp_path: Path) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return Reply({**completion(list(TEXTS[:3])), "tool_calls": TEXTS, "model": CODE_NAME})

    prompts = written(tmp_path / "in", [{"id": t, "source": t, "key": t} for t in TEXTS])
    with serving(answer) as server:
        options = [
            "--backend",
            "server",
            "--base-url",
            server.url,
            "--generator",
            CODE_NAME,
            "-n",
            "3",
        ]
        command = ["generate", prompts, *options, "--prompt", "{source} {key}"]
        fine(*command, "-o", tmp_path / "out.jsonl")


# combinations: names of code

NAMES_OF_CODE = [
    CODE_NAME,
    f" {CODE_NAME} ",
    f"2 * {CODE_NAME}",
    f"chrf + 0.5*{CODE_NAME}",
    f"chrf - {CODE_NAME}",
    f"{MODULE}:utility.__globals__",
    f"{MODULE}:os.system",
    f"{MODULE}:",
    f"{MODULE}:Metric(beta=1)",
    "timeit:timeit",
    "os:system",
    "discorank.cli.main:main",
    "discorank.metrics.lexical.chrf:ChrF",
    "discorank.metrics.registry:import_module",
    f'pdd(sentences="{CODE_NAME}")',
    f'ds-focus(nouns="{MODULE}:find")',
    f'lc(nouns="{MODULE}:find")',
    f'lc(nouns="spacy:{MODULE}")',
    'lc(nouns="spacy:./model")',
    f'role-match(sentences="{CODE_NAME}")',
    f'chrf(beta={{"deep": [["{CODE_NAME}"]]}})',
    f'chrf(beta={{"{CODE_NAME}": 1}})',
]


def combination(folder: Path, *metrics: str) -> str:
    """A combination of these metrics, as a signature."""
    features = [{"metric": metric, "weight": 1, "min": 0, "max": 1} for metric in metrics]
    path = folder / "m.json"
    path.write_text(json.dumps({"format": 1, "features": features}), encoding="utf-8")
    return f'combination(model="{path}")'


@pytest.mark.parametrize("name", NAMES_OF_CODE)
def test_a_combination_that_names_code(tmp_path: Path, name: str) -> None:
    lists = lists_of_code(tmp_path)
    utility = combination(tmp_path, "chrf", name)
    refused("decode", lists, "-u", utility, "-o", tmp_path / "out.jsonl")
    fine("check", lists, "-u", utility)
    assert not (tmp_path / "it ran").exists()


def lists_of_code(folder: Path) -> Path:
    """A list whose candidates would leave a file where they run."""
    texts = [f"import {MODULE}", f"open({str(folder / 'it ran')!r}, 'w')"]
    return written(folder / "lists", [{"id": "x", "source": "s", "candidates": texts}])


def test_commands_with_a_combination_that_names_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists, out = lists_of_code(tmp_path), tmp_path / "out.jsonl"
    utility = combination(tmp_path, "chrf", CODE_NAME)
    refused("decode", lists, "-u", f"chrf + {utility}", "-o", out)
    assert "--allow-code" in capsys.readouterr().err
    refused("decode", lists, "-u", "chrf", "--shortlist", utility, "-o", out)
    refused("rerank", lists, "-m", utility, "-o", out)
    refused("explain", lists, "-u", utility)
    fine("cite", utility)
    metric = written(tmp_path / "metric.yaml", f"name: combination\nmodel: {tmp_path}/m.json\n")
    refused("decode", lists, "-u", metric, "-o", out)
    fine("check", lists, "-u", metric)
    assert not (tmp_path / "it ran").exists()
    assert not out.exists()


@pytest.mark.parametrize("spec", ["m.yaml", "combination(model='m.json')", "a b", "", "..:x"])
def test_a_combination_that_names_files_or_nothing(tmp_path: Path, spec: str) -> None:
    written(tmp_path / "m.yaml", f"name: {CODE_NAME}\n")
    lists = written(tmp_path / "lists", [{"id": "x", "candidates": ["a", "b"]}])
    refused("decode", lists, "-u", combination(tmp_path, spec))


def test_a_name_in_check_imports_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = written(tmp_path / "lists", [{"id": "x", "candidates": ["a", "b"]}])
    metric = written(tmp_path / "metric.yaml", f"name: pdd\nsentences: {CODE_NAME}\n")
    for utility in (CODE_NAME, f"chrf + {CODE_NAME}", f'pdd(sentences="{CODE_NAME}")', metric):
        fine("check", lists, "-u", utility, "--format", "json")
        shown = json.loads(capsys.readouterr().out)["utility"]
        assert shown["signature"] == str(utility)
        assert shown["problems"]
    fine("cite", CODE_NAME, f'pdd(sentences="{CODE_NAME}")')


# runs, comparisons, saved utilities, priors, caches


def rewritten(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    # A stranger can sign what was changed.
    path.write_text(json.dumps(with_checksum(value)), encoding="utf-8")


@pytest.mark.parametrize(
    "signature",
    [CODE_NAME, f'pdd(sentences="{CODE_NAME}")', f"{MODULE}.yaml", "COMBINATION", [CODE_NAME]],
)
def test_a_run_file_that_names_code(
    tmp_path: Path, signature: str | list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    written(tmp_path / "canary" / f"{MODULE}.yaml", f"name: {CODE_NAME}\n")
    is_file = signature == f"{MODULE}.yaml"
    if signature == "COMBINATION":
        signature = combination(tmp_path, CODE_NAME)

    def change(head: Any) -> None:
        head["signature"] = signature
        head["settings"]["utility"] = signature
        if isinstance(signature, list):
            head["settings"]["shortlist"] = f"{CODE_NAME}, top 2"

    rewritten(Path(f"{run}.run.json"), change)
    page = tmp_path / "page.html"
    assert main(["report", str(run), "-o", str(page)]) == (2 if is_file else 0)
    assert ("--allow-code" in capsys.readouterr().err) != is_file
    fine("cite", f"{run}.run.json")
    systems = [
        {
            "id": one["id"],
            "systems": {"A": [one["candidates"][0]], "B": [one["candidates"][-1]]},
            "human": {"h": {"A": [1.0], "B": [0.0]}},
        }
        for one in LISTS[1:]
    ]
    documents = written(tmp_path / "systems", systems)
    command = ["compare", str(documents), "--decoded", str(run), "--human", "h", "--quiet"]
    assert main(command) in (0, 2)  # it may be no run of these documents


def test_a_run_is_not_resumed_by_its_run_file(tmp_path: Path) -> None:
    run = run_of(tmp_path, LISTS, "-u", "chrf")
    lists = tmp_path / "lists.jsonl"
    rewritten(Path(f"{run}.run.json"), lambda head: head.update(signature=CODE_NAME))
    main(["decode", str(lists), "-u", "chrf", "-o", str(run), "--quiet"])
    rewritten(Path(f"{run}.run.json"), lambda head: head["settings"].update(utility=CODE_NAME))
    refused("decode", lists, "-u", "chrf", "-o", run)


def test_a_comparison_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    systems = [{"id": "d", "systems": {"A": ["a"], "B": ["b"]}, "references": {"r": ["a"]}}]
    saved = tmp_path / "saved"
    file = written(tmp_path / "systems", systems)
    fine("compare", file, "-m", "chrf", "--save", saved, "--draws", 10)
    for path in saved.glob("*.json*"):
        text = path.read_text(encoding="utf-8").replace('"chrf"', json.dumps(CODE_NAME))
        path.write_text(text, encoding="utf-8")
    assert main(["report", str(saved), "-o", str(tmp_path / "page.html")]) in (0, 2)


def test_saved_utilities(tmp_path: Path) -> None:
    lists = written(tmp_path / "lists", LISTS)
    saved, out = tmp_path / "utilities", tmp_path / "out"
    fine("decode", lists, "-u", "chrf", "-o", out, "--save-utilities", saved)
    head, rest = saved.read_bytes().split(b"\n", 1)
    head = head.replace(b'"chrf"', json.dumps(CODE_NAME).encode())
    assert CODE_NAME.encode() in head
    main(["decode", str(lists), "--utilities", str(written(saved, head + b"\n" + rest))])
    written(saved, head + b"\n" + PICKLE)
    refused("decode", lists, "--utilities", saved)
    row = {"id": "one", "texts": "", "shape": [1], "float64": b64encode(PICKLE).decode()}
    refused("decode", lists, "--utilities", written(saved, head + b"\n" + json.dumps(row).encode()))


def test_a_prior(tmp_path: Path) -> None:
    systems = [
        {
            "id": f"d{i}",
            "systems": {"A": [f"a {i}"], "B": ["b"]},
            "human": {"h": {"A": [1.0 + i], "B": [0.5]}},
        }
        for i in range(4)
    ]
    file, prior = written(tmp_path / "systems", systems), tmp_path / "prior.json"
    fine("train", "prior", file, "--human", "h", "-o", prior)
    rewritten(prior, lambda value: value.update(human=CODE_NAME, inputs=TEXTS[2]))
    command = ["decode", str(file), "--from", "systems", "-u", "chrf", "--prior", str(prior)]
    main([*command, "--human", "h", "--quiet"])
    rewritten(prior, lambda value: value.update(metric=CODE_NAME))
    refused(*command)
    refused(*command[:-1], written(prior, PICKLE))


def test_a_cache(tmp_path: Path) -> None:
    import sqlite3

    lists, cache = written(tmp_path / "lists", LISTS), tmp_path / "cache"
    command = ["decode", lists, "-u", "bertscore(layer=1)", "--model", MODELS / "tiny-bert"]
    fine(*command, "--cache", cache)
    base = sqlite3.connect(cache / "representations.sqlite")
    assert base.execute("UPDATE entries SET value = ?", (PICKLE,)).rowcount > 0
    base.commit()
    base.close()
    fine(*command, "--cache", cache)


def test_configurations_and_metric_files(tmp_path: Path) -> None:
    lists = written(tmp_path / "lists", LISTS)
    for tag in (TEXTS[2], f"!!python/name:{MODULE}.utility", f"!!python/module:{MODULE}"):
        file = written(tmp_path / "x.yaml", f"utility: {tag}\nname: {tag}\n")
        refused("decode", lists, "--config", file)
        refused("decode", lists, "-u", file)
        refused("decode", lists, "-u", "chrf", "--set", f"nbest={tag}")
        with pytest.raises(DiscorankError):
            read_yaml(file)


# trees, word vectors, frequencies, words


@pytest.mark.parametrize(
    "content",
    [
        *(text.encode() for text in TEXTS),
        PICKLE,
        b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><rst>&e;</rst>',
        f'<?xml version="1.0"?><?python import {MODULE}?><rst><body/></rst>'.encode(),
        json.dumps({"rst": CODE_NAME}).encode(),
        f"( Root (span 1 1) ( Nucleus (leaf 1) (text _!{TEXTS[0]}_!) ) )".encode(),
    ],
)
def test_files_of_words_and_trees(tmp_path: Path, content: bytes) -> None:
    path = str(written(tmp_path / "x", content))
    packed = str(written(tmp_path / "x.bz2", bz2.compress(content)))
    text = Document(("a b.",), foci=((("a", 0, 1),),))
    readers: list[Callable[[], object]] = [
        lambda: load_metric("dr", trees=path).score(["a b"], [["a b"]]),
        lambda: read_treebank(Path(path)),
        lambda: load_metric("entity-graph", focus="entity", vectors=packed).score([text], [[text]]),
        lambda: load_metric("entity-graph", focus="entity", vectors=path).score([text], [[text]]),
        lambda: load_metric("bertscore", model=str(MODELS / "tiny-bert"), layer=1, idf=path),
        lambda: load_metric("dr", weights=path).score(["a b"], [["a b"]]),
    ]
    for read in readers:
        read_or_refused(read)


def read_or_refused(read: Callable[[], object]) -> None:
    """Reads; an error of ours is as good."""
    try:
        read()
    except DiscorankError:
        return


def test_weights_of_the_parser(tmp_path: Path) -> None:
    data = io.BytesIO()
    np.savez(data, about=np.array([Runs()], dtype=object))
    path = str(written(tmp_path / "weights.npz", data.getvalue()))
    with pytest.raises(DiscorankError, match=r"allow_pickle|weights of the discourse parser"):
        load_metric("dr", weights=path).score(["a b"], [["a b"]])


# models

HOSTILE_CONFIG = {
    "auto_map": dict.fromkeys(
        (
            "AutoConfig",
            "AutoModel",
            "AutoModelForSeq2SeqLM",
            "AutoModelForCausalLM",
            "AutoModelForMaskedLM",
            "AutoModelForSequenceClassification",
            "AutoTokenizer",
        ),
        f"{MODULE}.Canary",
    ),
    "trust_remote_code": True,
    "custom_pipelines": {"x": {"impl": f"{MODULE}.Canary", "pt": [f"{MODULE}.Canary"]}},
    "torch_dtype": "float32",
}
HOSTILE_TOKENIZER = {
    "auto_map": {"AutoTokenizer": [f"{MODULE}.Canary", f"{MODULE}.Canary"]},
    "chat_template": TEXTS[3],
    "trust_remote_code": True,
}


def hostile_model(folder: Path, model: Path) -> Path:
    """A copy of a model with everything in it that asks for code."""
    shutil.copytree(model, folder)
    for name, more in (
        ("config.json", HOSTILE_CONFIG),
        ("tokenizer_config.json", HOSTILE_TOKENIZER),
        ("generation_config.json", {"custom_generate": CODE_NAME, "trust_remote_code": True}),
    ):
        path = folder / name
        values = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**values, **more}), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEXTS[3], encoding="utf-8")
    code = Path(f"{MODULE}.py").read_text(encoding="utf-8")  # the working directory is the canary's
    for name in (f"{MODULE}.py", "custom_generate/generate.py", "modeling.py", "__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    return folder


def score_of(name: str, model: Path, **settings: Any) -> Any:
    texts = [Document(("a red dog.", "it ran."), foci=((("dog", 6, 9),), ()))]
    metric = load_metric(name, model=str(model), device="cpu", **settings)
    return metric.score(texts, [texts], ["a red dog. it ran."]).tolist()


METRICS_OF_MODELS: dict[str, tuple[Path, dict[str, Any]]] = {
    "bertscore": (MODELS / "tiny-bert", {"layer": 1}),
    "ds-focus": (GOLDEN / "discoscore" / "models" / "tiny2", {}),
    "bartscore": (MODELS / "tiny-bart", {}),
}


@pytest.mark.parametrize("name", METRICS_OF_MODELS)
def test_a_model_that_brings_code(tmp_path: Path, name: str) -> None:
    model, settings = METRICS_OF_MODELS[name]
    hostile = hostile_model(tmp_path / "model", model)
    assert score_of(name, hostile, **settings) == score_of(name, model, **settings)
    config = json.loads((hostile / "config.json").read_text(encoding="utf-8"))
    changes: list[dict[str, Any]] = [
        {"model_type": "canary"},
        {"model_type": None, "architectures": [MODULE]},
        {"attn_implementation": f"{MODULE}/kernel"},
        {"_attn_implementation": f"{MODULE}/kernel@main:forward"},
        {"attn_implementation": "flash_attention_2"},
        {"experts_implementation": MODULE},
    ]
    for change in changes:
        written(hostile / "config.json", json.dumps({**config, **change}))
        match = "nothing is fetched" if "implementation" in str(change) else "model"
        with pytest.raises(DiscorankError, match=match):
            score_of(name, hostile, **settings)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bertscore", "pickle"),
        ("bertscore", "torch"),
        ("ds-focus", "torch"),
        ("bartscore", "legacy"),
    ],
)
def test_weights_that_are_pickles(tmp_path: Path, name: str, data: str) -> None:
    model, settings = METRICS_OF_MODELS[name]
    hostile = hostile_model(tmp_path / "model", model)
    (hostile / "model.safetensors").unlink()
    weights = hostile / "pytorch_model.bin"
    if data == "pickle":
        weights.write_bytes(PICKLE)
    else:
        state = {"embeddings.word_embeddings.weight": Runs(), "x": torch.zeros(1)}
        torch.save(state, weights, _use_new_zipfile_serialization=data == "torch")
    with pytest.raises(DiscorankError):
        score_of(name, hostile, **settings)


def test_a_classifier_of_roles(tmp_path: Path) -> None:
    folder = tmp_path / "roles"
    shutil.copytree(GOLDEN / "pdd" / "tiny-roles", folder)
    texts = ["A red dog. It ran."]
    encoder = hostile_model(tmp_path / "encoder", MODELS / "tiny-bert")

    def score() -> object:
        metric = load_metric("pdd", model=str(folder), encoder_path=str(encoder), device="cpu")
        return metric.score(texts, [texts])

    rewritten(folder / "config.json", lambda config: config.pop("encoder", None))
    rewritten(folder / "config.json", lambda config: config.update(HOSTILE_CONFIG))
    score()
    (folder / "model.safetensors").write_bytes(PICKLE)
    with pytest.raises(DiscorankError):
        score()
    rewritten(folder / "config.json", lambda config: config.update(discorank=CODE_NAME))
    with pytest.raises(DiscorankError):
        score()


def test_a_model_that_generates(tmp_path: Path) -> None:
    hostile = hostile_model(tmp_path / "model", MODELS / "tiny-bart")
    prompts = written(tmp_path / "in", [{"id": "x", "source": "a red dog"}])
    command = ["generate", prompts, "--generator", hostile, "-n", "2", "--max-new-tokens", "3"]
    fine(*command, "-o", tmp_path / "out.jsonl")
    (hostile / "model.safetensors").unlink()
    torch.save({"x": Runs()}, hostile / "pytorch_model.bin")
    refused(*command, "-o", tmp_path / "none.jsonl")


@pytest.mark.parametrize("place", ["state_dict", "hyper_parameters", "callbacks", "all"])
def test_a_comet_checkpoint(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "comet"
    shutil.copytree(MODELS / "tiny-comet-ref", folder)
    checkpoint = folder / "checkpoints" / "model.ckpt"
    held = torch.load(checkpoint, weights_only=False)
    torch.save(Runs() if place == "all" else {**held, place: Runs()}, checkpoint)
    read_or_refused(lambda: score_of("comet", folder, encoder_path=str(MODELS / "tiny-bert")))
    hparams = folder / "hparams.yaml"
    hparams.write_text(f"x: {TEXTS[2]}\n" + hparams.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(DiscorankError):
        score_of("comet", folder, encoder_path=str(MODELS / "tiny-bert"))


def test_sescore2_models(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    torch.save(Runs(), path)
    encoder = str(GOLDEN / "sescore2" / "tiny_encoder")
    for content in (path.read_bytes(), PICKLE):
        with pytest.raises(DiscorankError):
            score_of("sescore2", written(path, content), encoder_path=encoder)
    folder = hostile_model(tmp_path / "model", Path(encoder))
    for about in ({}, {"words": CODE_NAME, "format": 1, "kind": CODE_NAME}, TEXTS[2]):
        written(folder / "sescore2.json", json.dumps(about))
        with pytest.raises(DiscorankError):
            score_of("sescore2", folder)


def test_a_training_job_of_sescore2(tmp_path: Path) -> None:
    """Files of a work folder whose names are right, by somebody else."""
    encoder = str(GOLDEN / "sescore2" / "tiny_encoder")
    texts = written(tmp_path / "texts", "".join(f"{text} a b c\n" for text in TEXTS))
    work = tmp_path / "work"
    arguments = ["--work", work, "--encoder", encoder, "--backbone", encoder, "--device", "cpu"]
    command = ["train", "sescore2", texts, "-o", tmp_path / "model", *arguments]
    fine(*command)
    shutil.rmtree(tmp_path / "model")
    names = {kind: next(work.glob(f"*-{kind}*")) for kind in ("vectors", "neighbours", "pairs")}
    evil: dict[str, Any] = {"ids": np.array([Runs()], dtype=object)}
    for kind in ("vectors", "neighbours"):
        names["pairs"].unlink(missing_ok=True)
        content = io.BytesIO()
        np.savez(content, **evil)
        written(names[kind], content.getvalue())
        if kind == "vectors":
            names["neighbours"].unlink()
        refused(*command)
    written(names["pairs"], gzip.compress(b'{"hypothesis": 1'))
    refused(*command)


# the working directory, and what is installed


def test_packages_in_the_working_directory(canary: Canary, tmp_path: Path) -> None:
    """A folder from somebody else may hold modules called as packages that are not installed are."""
    canary.write("MeCab.py")
    plug_in = canary.folder / "evil-1.0.dist-info"
    plug_in.mkdir()
    written(plug_in / "METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    points = f"[discorank.metrics]\nevil = {MODULE}:utility\n"
    written(plug_in / "entry_points.txt", points)
    lists = written(tmp_path / "lists", [{"id": "x", "candidates": ["a b.", "b c."]}])
    commands = []
    for name, metric in (("mecab", 'bleu(tokenize="ja-mecab")'), ("evil", "evil")):
        folder = tmp_path / name
        folder.mkdir()
        commands.append(["decode", str(lists), "-u", combination(folder, metric)])
    start = "import sys; sys.path.remove(''); from discorank.cli.main import main; "
    script = f"{start}print(*map(main, {commands!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=canary.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) <= {"2", "3"}, done
    assert len(done.stdout.split()) == 2, done
