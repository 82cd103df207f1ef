"""Training of SEScore2: stages that resume, the same weights after an interruption, batches, the command."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from filelock import FileLock

from discorank import load_metric
from discorank.cli.commands.train_metrics import validator
from discorank.cli.main import main
from discorank.integrations.formats.corpora import RatedText, read_rated, read_texts
from discorank.metrics.errors import InputError, ResumeError
from discorank.metrics.neural.models.pretrained import pretrained
from discorank.metrics.representations import FloatArray
from discorank.metrics.sescore2.metric import reader_of
from discorank.metrics.sescore2.training.job_stages import Stage, finished, opened
from discorank.metrics.sescore2.training.regression_network import (
    bounds,
    make_network,
    scores,
    vectors_of,
)
from discorank.metrics.sescore2.training.regression_training import (
    SAME,
    STRANGE,
    Examples,
    Run,
    Training,
    TrainingProgress,
    fit,
)
from discorank.metrics.sescore2.training.severity import Severity, label
from discorank.metrics.sescore2.training.synthesis import (
    Synthesis,
    embed,
    perturb,
    search,
    write_texts,
)
from discorank.metrics.text.texts import Item

from ...support.bit_flips import refused_flips
from ...support.lists import write_lists
from ...support.waiting import wait_until

GOLDEN = Path(__file__).parents[2] / "golden" / "sescore2"
ENCODER = str(GOLDEN / "tiny_encoder")
SYNTHESIS = Synthesis(encoder=ENCODER, neighbours=8, margin=0.9, words="unicode", min_words=2)
TRAINING = Training(
    backbone=ENCODER, epochs=2, batch_size=8, learning_rate=1e-3, head_learning_rate=1e-3
)


@cache
def texts() -> tuple[str, ...]:
    random = np.random.default_rng(5)
    parts = [
        ["the committee", "a dog", "the old man", "she", "the bank", "our team"],
        ["approved", "rejected", "saw", "planned", "bought", "opened"],
        ["the new budget", "a red house", "the security plan", "two shares", "the annual report"],
        ["in May", "on monday", "near the river", "after the war", "for 5 years", ""],
    ]
    drawn = [" ".join(str(random.choice(part)) for part in parts).strip() + "." for _ in range(60)]
    return tuple(dict.fromkeys(drawn))


def synthetic(work: Path, settings: Synthesis = SYNTHESIS) -> Path:
    write_texts(work, [(text, None) for text in texts()], settings)
    embed(work, settings, "cpu")
    search(work, settings, "cpu")
    perturb(work, settings)
    label(work, Severity(), "cpu")
    return work


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic(tmp_path_factory.mktemp("sescore2") / "work")


# stages


def test_shards_of_an_interrupted_stage_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "s", {"a": 1}) as stage:
        stage.write([{"n": 0}, {"n": 1}])
        stage.write([{"n": 2}])
    (tmp_path / "s" / ".00002.jsonl.draft").write_text('{"n": 9')  # what a killed run leaves behind
    with pytest.raises(ResumeError, match="is not finished"):
        finished(tmp_path / "s")
    with opened(tmp_path / "s", {"a": 1}) as stage:
        assert len(stage.digests) == 2
        stage.write([{"n": 3}])
        stage.finish({"rows": 4})
    assert [row["n"] for row in finished(tmp_path / "s").rows()] == [0, 1, 2, 3]


def test_stages_that_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "s", {"a": 1, "b": 2}) as stage:
        for number in range(3):
            stage.write([{"n": number}])
        stage.finish({"rows": 3})
    with pytest.raises(ResumeError, match="a was 1, now 3"), opened(tmp_path / "s", {"a": 3}):
        pass
    locked = pytest.raises(ResumeError)
    with FileLock(tmp_path / "s" / ".lock"), locked, opened(tmp_path / "s", {"a": 1, "b": 2}):
        pass
    (tmp_path / "s" / "00001.jsonl").write_text('{"n": 0}\n{"n"')
    with pytest.raises(InputError, match=r"00001\.jsonl"):
        list(stage.rows())
    (tmp_path / "s" / "00000.jsonl").unlink()
    with pytest.raises(InputError, match=r"00000\.jsonl"):
        list(stage.rows())
    (tmp_path / "s" / "stage.json").write_text("{")
    for folder in ("s", "nothing"):
        with pytest.raises(ResumeError, match=folder):
            finished(tmp_path / folder)


def test_flipped_bits_of_a_stage_are_refused(tmp_path: Path) -> None:
    rows, array = tmp_path / "rows", tmp_path / "array"
    with opened(rows, {"a": 1}) as stage:
        stage.write([{"n": 0.25}])
        stage.finish({"rows": 1})
    with opened(array, {"a": 1}) as stage:
        stage.write(np.arange(4.0))
        stage.finish({"rows": 1})

    def read() -> object:
        stage = finished(rows)
        values = finished(array).array().tolist()
        return list(stage.rows()), values, stage.settings, stage.counts

    expected = read()
    assert refused_flips(rows / "00000.jsonl", read, expected, 10) == 10
    assert refused_flips(array / "00000.npy", read, expected, 10) == 10
    assert refused_flips(rows / "stage.json", read, expected)


def test_a_shard_that_was_not_yet_listed_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path / "s", {}) as stage:
        stage.write([{"n": 0}])
    (tmp_path / "s" / "00001.jsonl").write_text('{"n": 7}\n')
    with opened(tmp_path / "s", {}) as stage:
        stage.write([{"n": 1}])
        assert [row["n"] for row in stage.rows()] == [0, 1]


# synthesis


def test_synthesis_is_interrupted_at_every_shard_and_ends_the_same(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discorank.metrics.sescore2.training.job_stages.SHARD", 16)
    plain = synthetic(tmp_path / "plain")
    write, left = Stage.write, 0

    def broken(self: Stage, rows: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        write(self, rows)

    monkeypatch.setattr(Stage, "write", broken)
    interruptions = 0
    while True:
        left = 1
        try:
            again = synthetic(tmp_path / "again")
            break
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions >= 3 * len(texts()) // 16
    rows = [list(finished(folder / "label").rows()) for folder in (plain, again, work)]
    assert rows[0] == rows[1] == rows[2]  # whatever the size of shards
    for row in rows[0]:
        assert row["hypothesis"] != row["reference"]
        assert row["score"] == pytest.approx(sum(row["mistakes"]))
        assert -25 <= row["score"] < 0
        assert 1 <= len(row["mistakes"]) <= 5


def test_texts_are_counted(tmp_path: Path) -> None:
    given = ["a b c", " a  b c", "a", "", "a b " * 60, "d e f"]
    settings = Synthesis(encoder=ENCODER)
    stage = write_texts(tmp_path, [(text, "x") for text in given], settings)
    counts = {"read": 6, "empty or too short": 2, "too long": 1, "duplicates": 1, "kept": 2}
    assert stage.counts == counts
    assert list(stage.rows()) == [
        {"text": "a b c", "source": "x"},
        {"text": "d e f", "source": "x"},
    ]
    with pytest.raises(ResumeError, match="the input texts differ"):
        write_texts(tmp_path, [("g h i", None), ("k l m", None)], settings)
    with pytest.raises(InputError, match="1 usable texts of 1"):
        write_texts(tmp_path / "few", [("g h i", None)], settings)


def test_anchors_are_a_sample(work: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(work, tmp_path / "work"))
    settings = replace(SYNTHESIS, anchors=7, samples=2)
    stage = perturb(copied, settings, folder="few")
    anchors = {row["anchor"] for row in stage.rows()}
    assert stage.counts is not None
    assert len(anchors) + stage.counts["anchors without a mistake"] == 7


def test_labels_depend_on_the_stop_words_and_the_words_of_their_texts(
    work: Path, tmp_path: Path
) -> None:
    copied, own = Path(shutil.copytree(work, tmp_path / "work")), tmp_path / "own.txt"
    own.write_text("the\nin\n")
    settings = Severity(stop_words=str(own))
    made = label(copied, settings, "cpu", folder="own")
    assert made.settings["words"] == "unicode"
    own.write_text("IN\n\nthe\n")  # the same words
    assert label(copied, settings, "cpu", folder="own").settings == made.settings
    own.write_text("the\n")
    with pytest.raises(ResumeError, match="stop_words was"):
        label(copied, settings, "cpu", folder="own")
    frequent = [
        label(copied, Severity(stop_words=f"frequent:{n}"), "cpu", folder=f"f{n}") for n in (1, 2)
    ]
    assert frequent[0].digest != frequent[1].digest


# examples


def test_an_epoch_mixes_three_kinds_of_pairs(work: Path) -> None:
    examples = Examples.of(finished(work / "label").rows())
    epoch = examples.epoch(0, 0.5, 0.5, 1)
    n = len(examples.scores)
    assert epoch.scores[:n].tolist() == examples.scores.tolist()
    kinds = Counter(epoch.scores[n:].tolist())
    assert set(kinds) == {SAME, STRANGE}
    for h, r, score in zip(
        epoch.hypotheses[n:], epoch.references[n:], epoch.scores[n:], strict=True
    ):
        assert (h == r) == (score == SAME)
    assert epoch.scores.tolist() != examples.epoch(1, 0.5, 0.5, 1).scores.tolist()
    lengths = np.array([len(text) for text in examples.texts])
    batches = epoch.batches(8, lengths, 1, 0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(epoch.scores)))
    assert not len(examples.split(0.3, 5, 1)[1].scores)
    train, held = examples.split(0.6, 21, 1)
    assert len(np.unique(held.references)) == 21
    assert not set(train.references.tolist()) & set(held.references.tolist())
    assert len(train.scores) + len(held.scores) == n
    with pytest.raises(InputError, match="no synthetic pair"):
        Examples.of([])


# training


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {
        **load_file(folder / "model.safetensors"),
        **load_file(folder / "estimator.safetensors"),
    }


def test_flipped_bits_of_saved_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"step": 3, "weights": torch.arange(512.0)}, path)
    run: Any = SimpleNamespace(torch=torch, device="cpu")

    def read() -> object:
        state = Run._load(run, path)
        return state["step"], state["weights"].tolist()

    assert refused_flips(path, read, read()) > 10


def test_an_interrupted_training_ends_in_the_same_weights(work: Path, tmp_path: Path) -> None:
    settings = replace(TRAINING, save_every_seconds=0.0, validate_every=4)
    progress: list[TrainingProgress] = []
    fit(work, tmp_path / "whole", settings, "cpu", on_progress=progress.append, folder="whole")
    assert [one.step for one in progress] == list(range(1, progress[-1].steps + 1))

    def stop(one: TrainingProgress) -> None:
        if one.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(work, tmp_path / "parts", settings, "cpu", on_progress=stop, folder="parts")
    assert not (tmp_path / "parts").exists()
    rest: list[TrainingProgress] = []
    fit(work, tmp_path / "parts", settings, "cpu", on_progress=rest.append, folder="parts")
    assert rest[0].step == 8
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    for name in whole:
        assert torch.equal(whole[name], parts[name]), name


def test_a_training_that_is_killed_ends_in_the_same_files(work: Path, tmp_path: Path) -> None:
    def command(name: str) -> list[str]:
        folders = ["-o", str(tmp_path / name / "model"), "--work", str(tmp_path / name / "work")]
        small = ["--backbone", ENCODER, "--epochs", "6", "--batch-size", "4", "--device", "cpu"]
        often = ["--save-every-seconds", "0", "--quiet"]
        return ["train", "sescore2", "fit", "texts.txt", *folders, *small, *often]

    def fresh(name: str) -> None:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        shutil.copytree(work, tmp_path / name / "work", ignore=lambda *_: ["fit"])

    def killed() -> bool:
        """Whether a training was killed after its first state; a busy machine may get to it too late."""
        fresh("parts")
        process = subprocess.Popen([sys.executable, "-m", "discorank", *command("parts")])
        state = tmp_path / "parts" / "work" / "fit" / "state.pt"
        wait_until(lambda: process.poll() is not None or state.exists())
        process.kill()
        return process.wait() == -signal.SIGKILL

    assert any(killed() for _ in range(9))
    assert not (tmp_path / "parts" / "model").exists()
    assert main(command("parts")) == 0
    fresh("whole")
    assert main(command("whole")) == 0
    whole, parts = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "model").iterdir()}
        for name in ("whole", "parts")
    )
    assert whole == parts


def test_a_kill_while_the_model_is_written_costs_nothing(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(TRAINING, epochs=1)
    out = tmp_path / "model"

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(work, out, settings, "cpu", folder="killed")
    assert [path.name for path in tmp_path.iterdir()] == [".model.lock"]
    (tmp_path / ".model.draft").mkdir()
    # what a hard kill leaves behind
    (tmp_path / ".model.draft" / "model.safetensors").write_text("half")
    fit(work, out, settings, "cpu", folder="killed")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".model.lock", "model"]
    first = weights(out)
    assert len({path.stat().st_mode for path in out.iterdir()}) == 1
    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(work, out, replace(settings, seed=9), "cpu", folder="other")
    # the old one stays meanwhile
    assert all(torch.equal(first[name], value) for name, value in weights(out).items())


def test_a_training_that_diverges_writes_nothing(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(TRAINING, epochs=1)

    def infinite(self: Run, examples: Examples, part: Any) -> Any:
        return self.network["estimator"][-1].bias.sum() * torch.inf

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_loss", infinite)
        with pytest.raises(InputError, match="step 0"):
            fit(work, tmp_path / "model", settings, "cpu", folder="loss")
    plain = Run._step

    def last(self: Run, examples: Examples, batch: Any, steps: int) -> float:
        loss = plain(self, examples, batch, steps)
        with torch.no_grad():
            self.network["estimator"][0].weight[0, 0] = torch.nan if self.step == steps else 0.0
        return loss

    monkeypatch.setattr(Run, "_step", last)
    with pytest.raises(InputError, match="weights"):
        fit(work, tmp_path / "model", settings, "cpu", folder="weights")
    assert not (tmp_path / "model").exists()
    for name in ("learning_rate", "head_learning_rate", "weight_decay"):
        with pytest.raises(InputError, match=name):
            replace(settings, **{name: cast(Any, 1e38)})


def test_a_finished_training_is_used_again(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is encoded or trained again; other settings are refused, and another model is replaced."""
    settings = replace(TRAINING, epochs=1, frozen=True)
    first = fit(work, tmp_path / "one", settings, "cpu", folder="used again")
    assert first.complete
    other = replace(settings, seed=5)
    fit(work, tmp_path / "two", other, "cpu", folder="of another seed")
    wanted, second = weights(tmp_path / "one"), weights(tmp_path / "two")
    monkeypatch.setattr(Run, "_vectors", None)
    progress: list[TrainingProgress] = []
    again = fit(
        work, tmp_path / "two", settings, "cpu", on_progress=progress.append, folder="used again"
    )
    assert again.complete
    assert not progress
    third = weights(tmp_path / "two")
    assert all(torch.equal(wanted[name], third[name]) for name in wanted)
    assert not all(torch.equal(second[name], third[name]) for name in second)
    smaller = replace(settings, batch_size=4)
    with pytest.raises(ResumeError, match="batch_size was 8, now 4"):
        fit(work, tmp_path / "two", smaller, "cpu", folder="used again")


def test_bounds_of_a_head_trained_without_dropout_map_a_text_with_itself_to_0() -> None:
    encoder = pretrained(Path(ENCODER))
    network, some = make_network(encoder, 0.3), list(texts()[:24])
    ids = reader_of(Path(ENCODER), encoder, 64).read([Item(text) for text in some])["ids"]
    rows, padding = np.arange(len(some)), encoder.config.pad_token_id

    def measured(views: bool) -> Any:
        return bounds(network, ids, rows, padding, np.random.default_rng(0), views=views)[1]

    if measured(False) is None:  # of random weights strangers may score higher
        with torch.no_grad():
            network["estimator"][-1].weight.neg_()
    vectors = vectors_of(network.train(False)["encoder"], ids, padding, "cpu")
    same = scores(network, vectors, np.stack((rows, rows), 1)).mean()
    assert measured(False) == pytest.approx(same, abs=1e-4)
    assert measured(True) != pytest.approx(same, abs=1e-4)


def test_training_learns_what_it_is_shown(work: Path, tmp_path: Path) -> None:
    settings = replace(TRAINING, epochs=10, identical=1.0, strange=1.0)
    fit(work, tmp_path / "model", settings, "cpu", folder="learns")
    metric: Any = load_metric("sescore2", model=str(tmp_path / "model"), device="cpu")
    some = list(texts()[:16])
    same, other = metric.score(some, some), metric.score(some, some[1:] + some[:1])
    assert same.mean() > other.mean() + 15


def test_a_frozen_encoder_stays(work: Path, tmp_path: Path) -> None:
    start = pretrained(Path(ENCODER)).state_dict()
    fit(work, tmp_path / "model", replace(TRAINING, epochs=1, frozen=True), "cpu", folder="frozen")
    ended = weights(tmp_path / "model")
    for name, value in start.items():
        if not name.startswith("pooler"):
            assert torch.equal(ended[name], value), name


def test_dropout_is_set_everywhere() -> None:
    network = make_network(pretrained(Path(ENCODER)), 0.3)
    shares = {module.p for module in network.modules() if isinstance(module, torch.nn.Dropout)}
    assert shares == {0.3}


def test_the_best_weights_are_kept(work: Path, tmp_path: Path) -> None:
    values = iter([0.1, 0.5, *[0.3] * 99])
    seen: list[FloatArray] = []

    def validate(predict: Any) -> float:
        seen.append(predict([texts()[0]], [texts()[1]]))
        return next(values)

    settings = replace(TRAINING, validate_every=2)
    fit(work, tmp_path / "model", settings, "cpu", validate, "some", folder="validated")
    metric: Any = load_metric("sescore2", model=str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(metric.score([texts()[0]], [texts()[1]]), seen[1], atol=1e-4)


def test_validation_against_the_best_reference() -> None:
    rated = [
        RatedText("a", ("x", "y"), 1.0),
        RatedText("b", ("x",), 3.0),
        RatedText("c", ("z", "x"), 2.0),
    ]
    table = {("a", "x"): 0.0, ("a", "y"): 1.0, ("b", "x"): 5.0, ("c", "z"): 2.0, ("c", "x"): -9.0}

    def predict(hypotheses: Sequence[str], references: Sequence[str]) -> FloatArray:
        return np.array([table[pair] for pair in zip(hypotheses, references, strict=True)])

    assert validator(rated)(predict) == 1.0


# the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some, model = list(texts()), tmp_path / "model"
    lines = [{"en": part, "de": part} for part in (some[:20], some[20:])]
    data = write_lists(tmp_path / "texts.jsonl", lines)
    pairs = []
    for i in range(12):
        pairs.append({"hypothesis": some[i], "references": [some[i + 1]], "mqm": i})
    rated = write_lists(tmp_path / "rated.jsonl", pairs)
    where = ["-o", str(model), "--text-field", "en", "--source-field", "de", "--device", "cpu"]
    small = ["--neighbours", "8", "--margin", "0.9", "--epochs", "2", "--severity", "code"]
    # so that there are bounds to rescale by
    small += [
        "--samples",
        "2",
        "--identical",
        "1",
        "--strange",
        "1",
        "--head-learning-rate",
        "1e-3",
    ]
    files = ["--encoder", ENCODER, "--backbone", ENCODER, "--mlm", str(GOLDEN / "tiny_mlm")]
    checked = ["--validation", str(rated), "--validation-score", "mqm:lower"]
    command = [str(data), *where, *small, *files, *checked]
    assert main(["train", "sescore2", "search", *command]) == 4  # texts were not run
    assert main(["train", "sescore2", "texts", *command]) == 0
    assert main(["train", "sescore2", *command]) == 0
    assert "Kendall" in capsys.readouterr().err
    assert main(["train", "sescore2", *command]) == 0  # nothing is left to do
    metric: Any = load_metric("sescore2", model=str(model), rescale=True, device="cpu")
    assert np.isfinite(metric.pairwise(some[:3], some[:3])).all()
    for changed, code in (("mqm", 4), ("mqm:up", 2)):
        assert main(["train", "sescore2", *command, "--validation-score", changed]) == code
    assert main(["train", "sescore2", *command, "--gamma", "0.3"]) == 4


def test_the_command_finds_out_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "texts.txt", tmp_path / "model"
    data.write_text("".join(f"{text}\n" for text in texts()))
    files = ["--encoder", ENCODER, "--backbone", ENCODER, "-o", str(out)]
    command = ["train", "sescore2", str(data), *files]
    out.write_text("a file")
    assert main(command) == 2
    out.unlink()
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert main(command) == 2
    shutil.rmtree(out)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]  # no stage was begun

    def stopped(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("discorank.cli.commands.train_metrics.embed", stopped)
        assert main(command) == 130
    settings = ["--device", "cpu", "--neighbours", "8", "--margin", "0.9", "--frozen"]
    assert main([*command, *settings]) == 0


@pytest.mark.parametrize(
    ("line", "fields", "found"),
    [
        ("{", ["en"], "x.jsonl:1"),
        ("[1]", ["en"], "x.jsonl:1"),
        ('{"de": "a"}', ["en"], "en: found None.*de"),
        ('{"en": ["a", "b"], "de": ["a"]}', ["en", "de"], "2 texts and 1 sources"),
        ("{}", [None, "de"], "--text-field"),
        ('{"hypothesis": "a", "reference": "b"}', [], "score: found None"),
        ('{"hypothesis": [], "reference": "b", "score": 1}', [], "hypothesis"),
        ('{"hypothesis": "a", "references": [], "score": 1}', [], "reference"),
        ('{"hypothesis": "a", "reference": "b", "score": 1}', [], "1 rated texts"),
    ],
)
def test_texts_and_ratings_that_are_refused(
    line: str, fields: list[Any], found: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=found):
        list(read_texts([str(path)], *fields)) if fields else read_rated(str(path))


def test_texts_and_ratings(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("a\n\nb\n")
    assert [text for text, _ in read_texts([str(path)])] == ["a", "", "b"]
    rows = [{"hypothesis": "a", "reference": "b", "s": 1}]
    write_lists(path, [*rows, {"hypothesis": "c", "references": ["d"], "s": 2}])
    assert read_rated(str(path), "s", lower=True)[1] == RatedText("c", ("d",), -2.0)
