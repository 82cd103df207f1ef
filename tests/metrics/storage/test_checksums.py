"""Checksums see every change of what an object holds, and none of how it is laid out."""

import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.errors import InputError
from discorank.metrics.storage.checksums import UncheckedWarning, check, checksum_of, with_checksum

VALUES = {"format": 1, "name": "é", "weights": [0.1, 1e300, -0.0], "inner": {"b": None, "a": True}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_was_written_is_read(values: dict[str, Any]) -> None:
    written = json.dumps(with_checksum(values), indent=1, ensure_ascii=True)
    check(json.loads(written), "file", "")


def test_order_and_layout_do_not_matter() -> None:
    turned = json.loads(json.dumps(dict(reversed(VALUES.items())), indent=4, ensure_ascii=False))
    assert checksum_of(turned) == checksum_of(VALUES)


def test_no_bit_of_a_value_changes_unseen() -> None:
    raw = json.dumps(with_checksum(VALUES), ensure_ascii=False).encode()
    for place in range(8 * len(raw)):
        flipped = bytearray(raw)
        flipped[place // 8] ^= 1 << place % 8
        try:
            values = json.loads(flipped)
        except ValueError:
            continue
        if values == json.loads(raw):
            continue
        if "checksum" not in values:
            with pytest.warns(UncheckedWarning):
                check(values, f"file {place}", "")
            continue
        with pytest.raises(InputError, match="file: is damaged or was edited"):
            check(values, "file", "Make it again")


def test_an_object_without_a_checksum_is_read_with_a_warning() -> None:
    with pytest.warns(UncheckedWarning, match='old.json: has no "checksum"'):
        check(VALUES, "old.json", "")


def test_the_warning_is_given_once_for_each_file() -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for where in ("one.json", "two.json", "one.json", "one.json"):
            check(VALUES, where, "")
    assert [str(warning.message).partition(":")[0] for warning in given] == ["one.json", "two.json"]
