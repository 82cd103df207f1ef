"""The prior over systems: its estimate against plain loops, and what it makes of decoding."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad  # type: ignore[import-untyped]

from discorank import InputError, MBRDecoder, Reranker, load_metric
from discorank.cli.main import main
from discorank.metrics.storage.checksums import UncheckedWarning, with_checksum
from discorank.rerank.prior import Prior, SystemPrior, load_prior, read_prior
from discorank.rerank.selection.system_scores import DocumentOutputs
from discorank.rerank.training.prior_estimation import estimate_prior, posterior, shrunk

from ..support.bit_flips import NUM_FLIPS, refused_flips
from .test_mbr import BOUNDED, WORDS, plain, same_choice

SCORES = st.sampled_from([0.0, 0.0, 0.1, 1.0, 2.0, 5.0, 9.0])
tables = st.integers(2, 4).flatmap(
    lambda s: st.lists(
        st.lists(st.one_of(SCORES, st.none()), min_size=s, max_size=s), min_size=4, max_size=9
    )
)
chrf = load_metric("chrf")


def utility(h: str, r: str) -> float:
    return float(chrf.score([h], [r])[0])


def outputs(
    table: list[list[float | None]], per_document: int = 2, order: list[int] | None = None
) -> Any:
    """Documents of some segments, system k in column k."""
    names = [f"S{k}" for k in order or range(len(table[0]))]
    columns = order or list(range(len(table[0])))
    documents = []
    for start in range(0, len(table), per_document):
        rows = table[start : start + per_document]
        texts = {name: ("a",) * len(rows) for name in names}
        scores = {
            name: tuple(row[k] for row in rows) for name, k in zip(names, columns, strict=True)
        }
        documents.append(DocumentOutputs(f"d{start}", False, None, texts, {}, {"mqm": scores}))
    return documents


def prior_of(means: dict[str, float], sigma: float = 1.0) -> Prior:
    systems = tuple((name, SystemPrior(mean, 0.1, mean, 3, 2)) for name, mean in means.items())
    return Prior(systems, sigma, 0.5, 1.0, "mqm", True, True, 3, 2, "x")


def plain_effects(y: list[list[float | None]]) -> tuple[Any, Any, float]:
    """Effects, residuals by (segment, system), and their variance, by least squares over one dummy per segment and
    system."""
    cells = [
        (i, s, value) for i, row in enumerate(y) for s, value in enumerate(row) if value is not None
    ]
    n, systems = len(y), len(y[0])
    design = np.zeros((len(cells) + 1, n + systems))
    for at, (i, s, _) in enumerate(cells):
        design[at, i] = design[at, n + s] = 1
    design[-1, n:] = 1  # the effects sum to 0
    solution = np.linalg.lstsq(
        design, np.array([value for *_, value in cells] + [0.0]), rcond=None
    )[0]
    rest = {(i, s): value - solution[i] - solution[n + s] for i, s, value in cells}
    return solution[n:], rest, sum(e * e for e in rest.values()) / (len(cells) - n - systems + 1)


def plain_posterior(effects: list[float], noise: list[float]) -> list[tuple[float, float]]:
    """Means and deviations by numerical integration over b = v / (t^2 + v)."""
    typical, systems = sum(noise) / len(noise), len(noise)

    def density(b: float) -> float:
        product = 1.0
        for a, v in zip(effects, noise, strict=True):
            total = typical * (1 - b) / b + v
            product *= (total / typical) ** (-(systems - 1) / (2 * systems)) * exp(
                -a * a / (2 * total)
            )
        return product

    whole = float(quad(density, 0, 1, limit=400)[0])
    estimates = []
    for a, v in zip(effects, noise, strict=True):

        def kept(b: float, v: float = v) -> float:
            return 1 - v / (typical * (1 - b) / b + v)

        mean = quad(lambda b: kept(b) * density(b), 0, 1, limit=400)[0] / whole
        square = quad(lambda b: kept(b) ** 2 * density(b), 0, 1, limit=400)[0] / whole
        estimates.append((mean * a, sqrt(mean * v + max(0.0, square - mean**2) * a * a)))
    return estimates


def usable(table: list[list[float | None]]) -> list[list[float | None]]:
    """The rows of two judgements and more, where all systems can be compared; else the example is not used."""
    rows = [row for row in table if sum(value is not None for value in row) > 1]
    cells = sum(value is not None for row in rows for value in row)
    assume(cells - len(rows) - len(table[0]) + 1 > 0)
    group = set(range(len(table[0])))
    reached = {0}
    for _ in group:
        for row in rows:
            own = {s for s, value in enumerate(row) if value is not None}
            reached |= own if own & reached else set()
    assume(reached == group)
    return rows


@given(table=tables)
@BOUNDED
def test_the_estimate_equals_a_plain_reading_of_its_equations(
    table: list[list[float | None]],
) -> None:
    rows = usable(table)
    y = [[None if value is None else sqrt(value) for value in row] for row in rows]
    effects, rest, variance = plain_effects(y)
    n, systems = len(y), len(y[0])
    known = [[value for value in row if value is not None] for row in y]
    around = sum((value - sum(row) / len(row)) ** 2 for row in known for value in row)
    judgements = sum(map(len, known))
    freedom = judgements - n - systems + 1
    one_more = around / (judgements - n)
    variance = max(variance, (variance * freedom + one_more) / (freedom + 1))
    laplacian = np.zeros((systems, systems))
    for row in y:
        own = [s for s, value in enumerate(row) if value is not None]
        for a in own:
            laplacian[a, a] += 1
            for b in own:
                laplacian[a, b] -= 1 / len(own)
    inverse = np.linalg.pinv(laplacian, rcond=1e-9)
    kept = [i for i, row in enumerate(table) if sum(value is not None for value in row) > 1]
    document = [i // 2 for i in kept]
    clustered = np.zeros((systems, systems))
    for d in set(document):
        sums = np.array(
            [
                sum(rest.get((i, s), 0.0) for i in range(n) if document[i] == d)
                for s in range(systems)
            ]
        )
        clustered += np.outer(inverse @ sums, inverse @ sums)
    count = len(set(document))
    plain_variance = variance * np.trace(inverse)
    design = 1.0
    if count > 1 and variance > 1e-12:
        design = max(1.0, np.trace(clustered) * count / (count - 1) / plain_variance)
    prior = estimate_prior(outputs(table), "mqm", lower=True)
    assert prior.rooted
    assert (prior.segments, prior.documents) == (n, count)
    assert prior.sigma == pytest.approx(sqrt(max(variance, 0.0)), abs=1e-6)
    assert [one.effect for _, one in prior.systems] == pytest.approx(effects.tolist(), abs=1e-9)
    if variance > 1e-12:
        assert prior.design_effect == pytest.approx(design)
        noise = [
            design * variance * inverse[s, s] * systems / (systems - 1) for s in range(systems)
        ]
        expected = plain_posterior(effects.tolist(), noise)
        assert [one.mean for _, one in prior.systems] == pytest.approx(
            [m for m, _ in expected], rel=1e-3, abs=1e-6
        )
        assert [one.error for _, one in prior.systems] == pytest.approx(
            [e for _, e in expected], rel=1e-3, abs=1e-6
        )
    for s, (_, one) in enumerate(prior.systems):
        judged = [i for i, row in enumerate(rows) if row[s] is not None]
        assert (one.segments, one.documents) == (len(judged), len({document[i] for i in judged}))


@given(table=st.lists(st.lists(SCORES, min_size=3, max_size=3), min_size=2, max_size=8))
@BOUNDED
def test_with_every_judgement_an_effect_is_the_mean_of_root_errors_less_the_segments_mean(
    table: list[list[float | None]],
) -> None:
    prior = estimate_prior(outputs(table), "mqm", lower=True)
    for s, (_, one) in enumerate(prior.systems):
        plainly = [sqrt(row[s] or 0) - sum(sqrt(v or 0) for v in row) / 3 for row in table]
        assert one.effect == pytest.approx(sum(plainly) / len(plainly), abs=1e-9)
        assert one.effect is not None
        assert 0 <= one.mean * np.sign(one.effect) <= abs(one.effect) + 1e-12


def test_posterior_intervals_hold_what_they_say() -> None:
    """Systems and documents are drawn as the model says, 8 segments of a document sharing half of the noise."""
    random = np.random.default_rng(5)
    inside = total = 0
    for _ in range(150):
        true = random.normal(size=8) * random.choice([0.1, 0.4])
        shared = random.normal(size=(12, 8)).repeat(8, axis=0)
        y = true + random.normal(size=(96, 1)) + (shared + random.normal(size=(96, 8))) / sqrt(2)
        estimates = shrunk(y, np.arange(96) // 8)
        assert 2 < estimates.design_effect < 10
        inside += int(
            (np.abs(estimates.means - (true - true.mean())) < 1.96 * estimates.errors).sum()
        )
        total += 8
    assert 0.92 < inside / total < 0.98


def test_the_posterior_follows_the_evidence() -> None:
    effects = np.array([-0.3, 0.1, 0.2])
    sure, unsure = posterior(effects, np.full(3, 1e-8)), posterior(effects, np.full(3, 1e4))
    assert sure[0] == pytest.approx(effects, rel=1e-4)
    assert unsure[0] == pytest.approx(effects * 1 / 2.75, rel=0.6)
    assert (np.abs(unsure[0]) < np.abs(effects)).all()
    assert posterior(effects, np.zeros(3))[1].tolist() == [0, 0, 0]


def test_unjudged_systems_have_the_mean_of_all() -> None:
    table: list[list[float | None]] = [
        [0.0, 4.0, None],
        [1.0, 9.0, None],
        [0.0, 1.0, None],
        [1.0, 4.0, None],
    ]
    prior = estimate_prior(outputs(table), "mqm", lower=True)
    two = estimate_prior(outputs([row[:2] for row in table]), "mqm", lower=True)
    systems = dict(prior.systems)
    assert systems["S2"] == SystemPrior(0.0, prior.between, None, 0, 0)
    assert prior.between > systems["S0"].error
    assert (systems["S0"], systems["S1"]) == tuple(one for _, one in two.systems)
    weights = prior.weights(["S0", "S1", "S2"], 6)
    assert weights[0] == 1 > weights[2] > weights[1] > 0


def test_higher_scores_are_turned_and_have_no_root() -> None:
    table: list[list[float | None]] = [[4.0, 1.0], [9.0, 1.0], [4.0, 4.0]]
    prior = estimate_prior(outputs(table), "mqm", lower=False)
    assert not prior.rooted
    assert [one.effect for _, one in prior.systems] == pytest.approx([-11 / 6, 11 / 6])
    negative = estimate_prior(outputs([[-1.0, 2.0], [-1.0, 3.0]]), "mqm", lower=True)
    assert not negative.rooted
    assert [one.effect for _, one in negative.systems] == pytest.approx([-1.75, 1.75])
    assert not estimate_prior(outputs(table), "mqm", lower=True, root="no").rooted


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        ([[1.0, None], [None, 2.0]], {}, "human.mqm: no segment with two judged systems"),
        ([[1.0, 2.0]], {}, "2 judgements of 1 segments and 2 systems. Have more segments judged"),
        (
            [[1.0, 2.0, None, None], [None, None, 3.0, 4.0]] * 3,
            {},
            "'S2' is never judged beside 'S0', nor through",
        ),
        (
            [[1.0, -2.0], [1.0, 3.0]],
            {"root": "yes"},
            "a negative score, which has no root. Leave --root out",
        ),
        (
            [[1.0, 2.0], [1.0, 3.0]],
            {"root": "yes", "lower": False},
            "scores of which higher is better, which has no",
        ),
        ([[None, None]], {}, "human.mqm: no system has a score"),
    ],
)
def test_judgements_that_do_not_suffice(table: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        estimate_prior(outputs(table), "mqm", **{"lower": True, **settings})


MEANS = st.sampled_from([-0.5, -0.1, 0.0, 0.3])
labelled = st.lists(WORDS, min_size=1, max_size=5).map(
    lambda texts: [{"text": text, "system": f"S{k}"} for k, text in enumerate(texts)]
)


def decoded(candidates: Any, more: Any = None, **settings: Any) -> Any:
    decoder = MBRDecoder(**{"utility": "chrf", "nbest": None, **settings})
    return next(decoder.decode([{"id": "x", "candidates": candidates, **(more or {})}]))


@given(
    rows=labelled,
    means=st.lists(MEANS, min_size=5, max_size=5),
    strength=st.sampled_from([0.5, 6.0]),
)
@BOUNDED
def test_prior_weighted_mbr_equals_a_double_loop(
    rows: Any, means: list[float], strength: float
) -> None:
    prior = prior_of({f"S{k}": mean for k, mean in enumerate(means)}, sigma=2.0)
    texts = [row["text"] for row in rows]
    weights = [exp(-strength * mean / 2.0) for mean in means[: len(rows)]]
    for self_pair in (True, False) if len(set(texts)) == len(texts) else (True,):
        rankings = decoded(rows, prior=prior, prior_strength=strength, self_pair=self_pair)
        same_choice(rankings, texts, plain(texts, texts, weights, utility, not self_pair))
    rankings = decoded(
        rows, {"pseudo_references": rows[::-1]}, prior=prior, prior_strength=strength
    )
    same_choice(rankings, texts, plain(texts, texts, weights, utility))


@given(rows=labelled, means=st.lists(MEANS, min_size=5, max_size=5))
@BOUNDED
def test_no_strength_is_plain_mbr_and_a_large_one_chooses_the_best_system(
    rows: Any, means: list[float]
) -> None:
    prior = prior_of({f"S{k}": mean for k, mean in enumerate(means)})
    none, plainly = decoded(rows, prior=prior, prior_strength=0.0), decoded(rows)
    assert none.ranking == plainly.ranking
    distinct = [mean + k / 100 for k, mean in enumerate(means)]
    prior = prior_of({f"S{k}": mean for k, mean in enumerate(distinct)})
    best = int(np.argmin(distinct[: len(rows)]))
    assume(rows[best]["text"])  # the empty text is no better than others for itself
    assert decoded(rows, prior=prior, prior_strength=1e6).text == rows[best]["text"]


@given(rows=labelled, means=st.lists(MEANS, min_size=5, max_size=5), data=st.data())
@BOUNDED
def test_the_order_of_candidates_does_not_matter(rows: Any, means: list[float], data: Any) -> None:
    prior = prior_of({f"S{k}": mean for k, mean in enumerate(means)})
    first, second = (
        decoded(rows, prior=prior),
        decoded(data.draw(st.permutations(rows)), prior=prior),
    )
    assert {place.text: place.utility for place in second.ranking} == pytest.approx(
        {place.text: place.utility for place in first.ranking}
    )


def test_systems_without_noise_leave_the_best_alone() -> None:
    prior = prior_of({"A": -1.0, "B": 0.0, "C": -1.0}, sigma=0.0)
    assert prior.weights(["A", "B", "C"], 6).tolist() == [1, 0, 1]
    assert prior.weights(["B"], 6).tolist() == [1]
    assert prior.weights(["A", "B"], 0).tolist() == [1, 1]
    for sigma, strength in ((1e-300, 1e300), (1e-200, 6.0), (1.0, 1e308)):
        prior = prior_of({"A": -1e200, "B": 0.0, "C": -1e200}, sigma=sigma)
        assert prior.weights(["A", "B", "C"], strength).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (["a"], r"candidates\[0\].system: found nothing, expected a name"),
        ([{"text": "a", "system": 3}], r"candidates\[0\].system: .*'3'"),
        (
            [{"text": "a", "system": "A"}, {"text": "b", "system": "Bx"}],
            r"candidates\[1\].system: .*'Bx'.*B",
        ),
    ],
)
def test_candidates_of_unknown_systems(candidates: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decoded(candidates, prior=prior_of({"A": 0.1, "B": 0.2}))


def test_a_prior_has_the_only_say_in_weights() -> None:
    with pytest.raises(InputError, match="weights 'logprob' with a prior"):
        MBRDecoder(utility="chrf", weights="logprob", prior=prior_of({"A": 0.1}))
    with pytest.raises(InputError, match="prior_strength: 3 without a prior"):
        MBRDecoder(utility="chrf", prior_strength=3.0)
    decoder = MBRDecoder(utility="chrf", prior=prior_of({"A": 0.1}))
    assert hash(decoder) == hash(replace(decoder))
    assert "prior" not in MBRDecoder(utility="chrf").identity


def test_a_damaged_or_edited_prior_is_refused(tmp_path: Path) -> None:
    good = with_checksum(prior_of({"A": 0.1, "B": -0.1}).as_json())
    path = tmp_path / "prior.json"
    path.write_text(json.dumps({**good, "sigma": 2.0}), encoding="utf-8")
    match = r'prior.json: is damaged or was edited: .*remove "checksum" from it, else fetch or make'
    with pytest.raises(InputError, match=match):
        load_prior(path)
    del good["checksum"]
    path.write_text(json.dumps({**good, "sigma": 2.0}), encoding="utf-8")
    with pytest.warns(UncheckedWarning, match='prior.json: has no "checksum"'):
        assert load_prior(path) == prior_of({"A": 0.1, "B": -0.1}, sigma=2.0)


@pytest.mark.parametrize("num_flips", [NUM_FLIPS, pytest.param(None, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_a_prior_is_refused_or_changes_nothing(
    num_flips: int | None, tmp_path: Path
) -> None:
    path, prior = tmp_path / "prior.json", prior_of({"A": 0.1, "B": -0.1})
    row = with_checksum(prior.as_json())
    path.write_text(json.dumps(row, indent=1), encoding="utf-8")
    assert refused_flips(path, lambda: load_prior(path), prior, num_flips)


@pytest.mark.filterwarnings(f"ignore::{UncheckedWarning.__module__}.{UncheckedWarning.__name__}")
def test_files_that_are_no_prior(tmp_path: Path) -> None:
    good = prior_of({"A": 0.1, "B": -0.1}).as_json()
    path = tmp_path / "prior.json"
    path.write_text(json.dumps(good), encoding="utf-8")
    assert load_prior(str(path)) == read_prior(good) == prior_of({"A": 0.1, "B": -0.1})
    own = good["systems"]["A"]
    without_human = {key: value for key, value in good.items() if key != "human"}
    wrong: list[tuple[Any, str]] = [
        ("{", "prior.json"),
        (json.dumps(good).replace('{"A":', '{"A": {}, "A":'), "'A'"),
        ([1], "discorank train prior"),
        ({**good, "format": 2}, "format 1"),
        ({**good, "systems": {}}, "systems"),
        ({**good, "sigma": -1.0}, "sigma"),
        ({**good, "more": 1}, "'more'"),
        ({**good, "systems": {"A": {**own, "error": float("nan")}}}, "systems.A.*error"),
        ({**good, "systems": {"A": 3}}, "systems.A"),
        (without_human, "human"),
    ]
    for content, message in wrong:
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
        )
        with pytest.raises(InputError, match=message):
            MBRDecoder(utility="chrf", prior=str(path))
    with pytest.raises(InputError, match=r"absent\.json: cannot be read: No such file"):
        load_prior(str(tmp_path / "absent.json"))


def systems_line(number: int) -> dict[str, Any]:
    """A document of three systems; A is good, B makes errors, C was judged nowhere and agrees with B."""
    good, bad = (
        [f"the cat {number} sat on the mat", "it slept well there"],
        [f"a dog {number} ran", "they swam"],
    )
    near = [f"a dog {number} ran off", "they all swam"]
    human = {"A": [0, 1], "B": [5, None if number % 2 else 4], "C": None}
    return {"id": f"d{number}", "systems": {"A": good, "B": bad, "C": near}, "mqm": human}


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.jsonl"
    path.write_text("".join(json.dumps(systems_line(n)) + "\n" for n in range(6)), encoding="utf-8")
    return str(path)


def trained(systems: str, out: str, *more: str) -> str:
    assert (
        main(["train", "prior", systems, "--human", "mqm:lower", "-o", out, "--quiet", *more]) == 0
    )
    return out


def rows_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_from_judgements_to_choices(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prior = trained(systems, str(tmp_path / "prior.json"))
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[2:5]] == ["A", "C", "B"]
    assert "the square root of mqm" in shown
    trained(systems, str(tmp_path / "again.json"), "--format", "json")
    assert json.loads(capsys.readouterr().out) == json.loads(
        Path(prior).read_text(encoding="utf-8")
    )
    plainly, weighed = tmp_path / "plain", tmp_path / "weighed"
    decode = ["decode", systems, "--from", "systems", "-u", "chrf", "--quiet"]
    assert main([*decode, "-o", str(plainly)]) == 0
    assert main([*decode, "-o", str(weighed), "--prior", prior]) == 0
    assert 0 not in {row["index"] for row in rows_of(plainly)}
    assert {row["index"] for row in rows_of(weighed)} == {0}
    run = json.loads((tmp_path / "weighed.run.json").read_text(encoding="utf-8"))["settings"]
    estimated = load_prior(prior)
    assert estimated is not None
    assert (run["prior"], run["prior_strength"]) == (estimated.digest, 6.0)


def test_a_run_goes_on_with_the_same_prior_alone(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prior, moved = trained(systems, str(tmp_path / "prior.json")), str(tmp_path / "moved.json")
    whole, out, broken = tmp_path / "whole", tmp_path / "out", tmp_path / "broken.jsonl"
    lines = Path(systems).read_text(encoding="utf-8").splitlines(keepends=True)
    broken.write_text("".join([*lines[:3], "{\n", *lines[4:]]), encoding="utf-8")
    options = ["--from", "systems", "-u", "chrf", "--quiet"]
    assert main(["decode", systems, *options, "--prior", prior, "-o", str(whole)]) == 0
    assert main(["decode", str(broken), *options, "--prior", prior, "-o", str(out)]) == 3
    assert 0 < len(rows_of(out)) < len(rows_of(whole))
    broken.write_text("".join(lines), encoding="utf-8")
    Path(prior).rename(moved)
    other = prior_of({"A": 0.1, "B": 0.2, "C": 0.3})
    Path(prior).write_text(json.dumps(with_checksum(other.as_json())), encoding="utf-8")
    capsys.readouterr()
    assert main(["decode", str(broken), *options, "--prior", prior, "-o", str(out)]) == 4
    assert f"now '{other.digest}'" in capsys.readouterr().err
    strong = ["--prior", moved, "--prior-strength", "7"]
    assert main(["decode", str(broken), *options, *strong, "-o", str(out)]) == 4
    assert main(["decode", str(broken), *options, "--prior", moved, "-o", str(out)]) == 0
    assert out.read_bytes() == whole.read_bytes()


LISTS: list[Any] = [
    {
        "id": "x",
        "candidates": [
            {"text": "the cat sat on the mat", "system": "A", "qe": 0.1},
            {"text": "a dog ran", "system": "B", "qe": 0.9},
            {"text": "a dog ran off", "system": "B", "qe": 0.2},
        ],
    }
]


def test_expected_utility_is_a_feature() -> None:
    decoder = MBRDecoder(utility="chrf", prior=prior_of({"A": 0.1, "B": 0.2}), nbest=None)
    alone = next(Reranker({"expected": 1.0}, nbest=None, decoder=decoder).decode(LISTS))
    decided = next(decoder.decode(LISTS))
    assert alone.ranking == decided.ranking
    mixed = next(
        Reranker({"expected": 1.0, "field:qe": 2.0}, "zscore", nbest=None, decoder=decoder).decode(
            LISTS
        )
    )
    values = np.zeros(3)
    for place in decided.ranking:
        values[place.index] = place.utility
    qe = np.array([0.1, 0.9, 0.2])
    summed = (values - values.mean()) / values.std() + 2 * (qe - qe.mean()) / qe.std()
    assert {place.index: place.utility for place in mixed.ranking} == pytest.approx(
        dict(enumerate(summed))
    )
    assert mixed.index == int(summed.argmax())


def test_what_expected_needs() -> None:
    decoder = MBRDecoder(utility="chrf")
    with pytest.raises(InputError, match="the feature 'expected' alone"):
        Reranker({"expected": 1.0})
    with pytest.raises(InputError, match="a decoder alone"):
        Reranker({"length": 1.0}, decoder=decoder)
    for wrong, name in (
        (decoder.with_settings(oracle=True), "oracle"),
        (decoder.with_settings(shortlist="bleu"), "shortlist"),
    ):
        with pytest.raises(InputError, match=f"{name}: does not go with a reranker"):
            Reranker({"expected": 1.0}, decoder=wrong)
    one, other = (
        Reranker(
            {"expected": 1.0}, decoder=MBRDecoder(utility="chrf", prior=prior_of({"A": mean}))
        ).identity
        for mean in (0.1, 0.2)
    )
    assert one != other


def test_rerank_command_with_expected_utility(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prior = trained(systems, str(tmp_path / "prior.json"))
    decode, rerank = tmp_path / "decode", tmp_path / "rerank"
    options = ["--from", "systems", "-u", "chrf", "--prior", prior, "--quiet"]
    assert main(["decode", systems, *options, "-o", str(decode)]) == 0
    assert main(["rerank", systems, *options, "-m", "expected", "-o", str(rerank)]) == 0
    assert decode.read_bytes() == rerank.read_bytes()
    capsys.readouterr()
    assert main(["rerank", systems, *options, "-m", "length", "-o", str(tmp_path / "no")]) == 2
    assert ": is for the feature expected. Add -m expected" in capsys.readouterr().err


def test_two_equal_judgements_are_not_certain() -> None:
    """By hand: y -2/3, 1/3, 1/3 twice; no residuals, s^2 = 4/3 / 4 = 1/3, sigma^2 = (0 + 1/3) / 3."""
    prior = estimate_prior(outputs([[-2 / 3, 1 / 3, 1 / 3]] * 2), "mqm", lower=True)
    assert prior.sigma == pytest.approx(1 / 3)
    for _, one in prior.systems:
        assert one.effect is not None
        assert abs(one.mean) < abs(one.effect)
        assert one.error > 0.1
    more = estimate_prior(outputs([[-2 / 3, 1 / 3, 1 / 3]] * 200), "mqm", lower=True)
    best, _ = more.systems[0][1], prior.systems[0][1]
    assert best.mean == pytest.approx(-2 / 3, abs=1e-3)
    assert best.error < 0.01
