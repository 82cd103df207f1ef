"""Discourse trees for tests: the golden cases, and random trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from discorank.metrics.rst.trees import Tree
from discorank.metrics.text.texts import RSTTree

GOLDEN: Any = json.loads(
    (Path(__file__).parents[1] / "golden" / "discotk" / "cases.json").read_text(encoding="utf-8")
)

leaves = st.lists(
    st.sampled_from(["he", "left", "she", "(", "EDU", "no", "*", "Said"]), max_size=4
).map(tuple)


def _node(children: Any) -> Any:
    def with_children(some: list[Tree]) -> Any:
        letters = st.lists(st.sampled_from("NS"), min_size=len(some), max_size=len(some)).map(
            "".join
        )
        names = st.sampled_from(["Elaboration", "Joint", "cause", "my own"])
        return st.builds(
            RSTTree, letters.filter(lambda nuc: "N" in nuc), names, st.just(tuple(some))
        )

    return st.lists(children, min_size=2, max_size=4).flatmap(with_children)


trees = st.recursive(leaves, _node, max_leaves=7)
