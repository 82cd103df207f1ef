"""Signatures: the small grammar, its errors, and frozen spellings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import InputError, load_metric
from discorank.metrics.spec.signature import Call, call, parse

BOUNDED = bounded(max_examples=30, deadline=None, database=None, print_blob=True)

FROZEN: list[tuple[str, dict[str, Any], str]] = [
    ("chrf", {}, "chrf"),
    ("chrf++", {}, "chrf(word_order=2)"),
    ("chrf", {"beta": 1}, "chrf(beta=1.0)"),
    ("chrf", {"whitespace": True, "char_order": 4}, "chrf(char_order=4,whitespace=true)"),
    ("chrf", {"beta": 2.0, "lowercase": False}, "chrf"),
    ("bleu", {}, "bleu"),
    ("bleu", {"tokenize": "zh", "lowercase": True}, 'bleu(tokenize="zh",lowercase=true)'),
    (
        "bleu",
        {"smooth_method": "floor", "smooth_value": 0.1},
        'bleu(smooth_method="floor",smooth_value=0.1)',
    ),
    ("bleu", {"smooth_value": None, "effective_order": False}, "bleu(effective_order=false)"),
]


@pytest.mark.parametrize(("name", "settings", "signature"), FROZEN)
def test_frozen(name: str, settings: dict[str, Any], signature: str) -> None:
    metric = load_metric(name, **settings)
    assert metric.signature() == signature
    assert load_metric(signature) == metric


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("chrf", [(1.0, "chrf", {})]),
        (" chrf ( ) ", [(1.0, "chrf", {})]),
        ("chrf++", [(1.0, "chrf++", {})]),
        ("chrf+++bleu", [(1.0, "chrf++", {}), (1.0, "bleu", {})]),
        ("chrf+bleu", [(1.0, "chrf", {}), (1.0, "bleu", {})]),
        ("chrf - 2*bleu", [(1.0, "chrf", {}), (-2.0, "bleu", {})]),
        ("- chrf + -.5 * bleu", [(-1.0, "chrf", {}), (-0.5, "bleu", {})]),
        ("1e-3*chrf", [(0.001, "chrf", {})]),
        ('comet-qe(model="a, b) + c")', [(1.0, "comet-qe", {"model": "a, b) + c"})]),
        ("dr-nolex(decay=0.4)", [(1.0, "dr-nolex", {"decay": 0.4})]),
        (
            'my.pkg:A.B(x=[1, 2],y=null , z={"k": true})',
            [(1.0, "my.pkg:A.B", {"x": [1, 2], "y": None, "z": {"k": True}})],
        ),
        ("m:f.<locals>.<lambda>", [(1.0, "m:f.<locals>.<lambda>", {})]),
        ("bleu(tokenize='zh', order = 3)", [(1.0, "bleu", {"tokenize": "zh", "order": 3})]),
        ("bleu(tokenize=' ')", [(1.0, "bleu", {"tokenize": " "})]),
        ('bleu(tokenize="\\u00e9\\"")', [(1.0, "bleu", {"tokenize": 'é"'})]),
    ],
)
def test_parse(text: str, expected: list[tuple[float, str, dict[str, Any]]]) -> None:
    assert parse(text) == [Call(*term) for term in expected]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "'' at character 1"),
        ("chrf +", "metric"),
        ("chrf bleu", "'bleu' at character 6"),
        ("chrf(beta=1,2)", "setting=value"),
        ("chrf(beta=)", "JSON"),
        (r'vote(pattern="a\n\d+")', "backslash"),
        ("chrf(beta='a\"b')", "JSON"),
        ("chrf(beta='a", "JSON"),
        ("chrf(beta=['a'])", "JSON"),
        ("bleu(tokenize=zh)", '"zh"'),
        ("chrf(beta=1", r"\)"),
        ("chrf(beta=1,)", "setting=value"),
        ("chrf(beta=1,beta=2)", "beta"),
        ("2*3*chrf", "metric"),
        ("0.5chrf", "metric"),
        ("chrf(beta=" + "[" * 100_000 + ")", "JSON"),
        ("chrf(beta=" + "1" * 10_000 + ")", "JSON"),
        ("chrf(beta=__import__('os'))", "JSON"),
    ],
)
def test_errors_show_the_place(text: str, found: str) -> None:
    with pytest.raises(InputError, match=found) as raised:
        parse(text)
    assert len(str(raised.value)) < 500


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["chrf", "chrf++", "rouge-w.2", "a.b:C", "m:f.<locals>.g", "x_1"])


@given(
    terms=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False).filter(lambda w: w != 1),
            NAMES,
            st.dictionaries(
                st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), values, max_size=3
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
@BOUNDED
def test_what_is_written_is_read_back(terms: list[tuple[float, str, dict[str, Any]]]) -> None:
    text = " + ".join(f"{weight!r}*{call(name, settings)}" for weight, name, settings in terms)
    assert parse(text) == [Call(*term) for term in terms]


@given(text=st.text(max_size=30) | st.text("chrfble+-*()=,.\"' 0123[]{}", max_size=30))
@BOUNDED
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        terms = parse(text)
    except InputError:
        return
    assert terms
    assert all(
        json.loads(json.dumps(term.settings)) == term.settings
        for term in terms
        if term.settings == term.settings
    )


@given(
    char_order=st.integers(1, 16),
    word_order=st.integers(0, 8),
    beta=st.floats(0, 1e300, exclude_min=True) | st.integers(1, 9),
    lowercase=st.booleans(),
)
@BOUNDED
def test_any_settings_come_back(
    char_order: int, word_order: int, beta: float, lowercase: bool
) -> None:
    metric = load_metric(
        "chrf", char_order=char_order, word_order=word_order, beta=beta, lowercase=lowercase
    )
    assert load_metric(metric.signature()) == metric
    again = load_metric(metric.signature())
    assert again.signature() == metric.signature()
    assert hash(again) == hash(metric)
