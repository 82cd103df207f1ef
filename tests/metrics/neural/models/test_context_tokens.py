"""The reader of neural metrics: ids as a plain reimplementation makes them, what is cut, and hostile texts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import ModelLoadError
from discorank.metrics.neural.models.context_tokens import Frame, Reader, TruncationRule
from discorank.metrics.neural.models.pretrained import tokenizer_of
from discorank.metrics.text.texts import Item

BOUNDED = bounded(max_examples=12, deadline=None, database=None, print_blob=True)
GOLDEN = Path(__file__).parents[3] / "golden" / "docmetrics"
CASES = {
    case["id"]: case
    for case in json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))["cases"]
}
FAMILIES = ("tiny-bert", "tiny-roberta", "tiny-xlmr")
every_family = pytest.mark.parametrize("family", FAMILIES)
LETTERS = "bcdefghijklmnopqrstuvwxyz"
LITERALS = ["</s>", "<s>", "<pad>", "<mask>", "[SEP]", "[CLS]", "[MASK]", "[PAD]"]
tokenizer = cache(lambda family: tokenizer_of(GOLDEN / "models" / family))


class Row(NamedTuple):
    """One row of what the reader returns."""

    ids: list[int]
    start: int
    whole: int
    own: int
    cut: int


def reader(
    family: str, limit: int = 128, truncation: TruncationRule = "oldest-context", **more: bool
) -> Reader:
    return Reader(tokenizer(family), Frame.of(tokenizer(family)), limit, truncation, **more)


def read(by: Reader, *items: Item) -> list[Row]:
    reps = by.read(items)
    ids = reps["ids"]
    columns = (reps[name].tolist() for name in ("start", "whole", "own", "cut"))
    return [
        Row(ids.values[a:b].tolist(), *numbers)
        for a, b, *numbers in zip(ids.offsets[:-1], ids.offsets[1:], *columns, strict=True)
    ]


def sentence(family: str, length: int, first: int) -> tuple[str, list[int]]:
    """A text of `length` letters, other ones than its neighbours', and its ids."""
    text = " ".join(LETTERS[(first + i) % len(LETTERS)] for i in range(length))
    return text, tokenizer(family)(text, add_special_tokens=False).input_ids


def by_hand(context: list[list[int]], own: list[int], family: str, limit: int) -> Row:
    """Token by token: whole sentences from the left, then tokens from the left of the last, then from the right."""
    t = tokenizer(family)
    context, whole = (
        [list(piece) for piece in context],
        2 + len(own) + sum(len(piece) + 1 for piece in context),
    )
    kept, cut = list(own), 0

    def size() -> int:
        return 2 + len(kept) + sum(len(piece) + 1 for piece in context)

    while size() > limit:
        cut = max(cut, 1)
        if len(context) > 1:
            del context[0]
        elif context and len(context[0]) > 1:
            del context[0][0]
        elif context:
            del context[0]
        else:
            cut = 2
            del kept[-1]
    before = [token for piece in context for token in (*piece, t.sep_token_id)]
    return Row(
        [t.cls_token_id, *before, *kept, t.sep_token_id], 1 + len(before), whole, len(own), cut
    )


LENGTHS = st.lists(st.integers(0, 9), max_size=4)


@every_family
@given(context=LENGTHS, own=st.integers(0, 16), limit=st.integers(4, 40))
@BOUNDED
def test_what_is_cut(family: str, context: list[int], own: int, limit: int) -> None:
    # spaces at the joints are tokens of their own there; see the test below
    if family == "tiny-roberta":
        return
    pieces = [sentence(family, n, 5 * i) for i, n in enumerate([*context, own])]
    item = Item(pieces[-1][0], tuple(text for text, _ in pieces[:-1]))
    (row,) = read(reader(family, limit), item)
    assert row == by_hand([ids for _, ids in pieces[:-1]], pieces[-1][1], family, limit)
    assert len(row.ids) <= limit


@given(context=LENGTHS, own=st.integers(0, 16), limit=st.integers(4, 40))
@BOUNDED
def test_what_is_cut_with_spaces_at_the_joints(context: list[int], own: int, limit: int) -> None:
    family = "tiny-roberta"
    texts = [sentence(family, n, 5 * i)[0] for i, n in enumerate([*context, own])]
    last = len(texts) - 1
    spaced = [f"{' ' if i else ''}{text}{' ' if i < last else ''}" for i, text in enumerate(texts)]
    spaced[-1] = spaced[-1] if own else ""
    ids = [tokenizer(family)(text, add_special_tokens=False).input_ids for text in spaced]
    (row,) = read(reader(family, limit), Item(texts[-1], tuple(texts[:-1])))
    assert row == by_hand(ids[:-1], ids[-1], family, limit)


@every_family
@given(context=LENGTHS, own=st.integers(0, 16), limit=st.integers(4, 40))
@BOUNDED
def test_truncation_as_in_the_released_code(
    family: str, context: list[int], own: int, limit: int
) -> None:
    """The right end is cut; the sentence starts behind the last separator but one of what is left."""
    texts = [sentence(family, n, 5 * i)[0] for i, n in enumerate([*context, own])]
    item = Item(texts[-1], tuple(texts[:-1]))
    (whole,) = read(reader(family, 1000), item)
    (row,) = read(reader(family, limit, "reference"), item)
    assert row[2:4] == whole[2:4]
    if len(whole.ids) <= limit:
        assert row == whole
        return
    separator = tokenizer(family).sep_token_id
    assert row.ids == [*whole.ids[: limit - 1], separator]
    places = [i for i, token in enumerate(row.ids) if token == separator]
    assert row.start == (places[-2] + 1 if len(places) > 1 else 1)
    assert row.cut == 2


@every_family
def test_of_one_context_sentence_the_right_end_stays(family: str) -> None:
    t = tokenizer(family)
    text, own = sentence(family, 10, 0)[0], sentence(family, 4, 12)[0]
    (whole,) = read(reader(family), Item(own, (text,)))
    (row,) = read(reader(family, len(whole.ids) - 3), Item(own, (text,)))
    assert row == Row([t.cls_token_id, *whole.ids[4:]], whole.start - 3, whole.whole, whole.own, 1)
    (bare,) = read(reader(family, whole.own + 2), Item(own, (text,)))
    assert bare == Row([t.cls_token_id, *whole.ids[whole.start :]], 1, whole.whole, whole.own, 1)
    (less,) = read(reader(family, whole.own + 1), Item(own, (text,)))
    assert less == Row([*bare.ids[:-2], t.sep_token_id], 1, whole.whole, whole.own, 2)


def pieces_of(case: dict[str, Any], joined: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in joined.split(case["sep"]))


BERTSCORE = [
    name for name, case in CASES.items() if "hyp_ids" in case and case["metric"] == "bertscore"
]


@pytest.mark.parametrize("name", BERTSCORE)
def test_ids_of_bertscore(name: str) -> None:
    case = CASES[name]
    by = reader(case["model"], 128, "reference", space_before=not name.startswith("fork"))
    for side in ("hyp", "ref"):
        texts = case[side] if not case["ws"] else [pieces_of(case, joined) for joined in case[side]]
        items = [Item(t, ()) if isinstance(t, str) else Item(t[-1], t[:-1]) for t in texts]
        assert [row.ids for row in read(by, *items)] == case[f"{side}_ids"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "input_ids" in case])
def test_ids_of_comet(name: str) -> None:
    case = CASES[name]
    by = reader("tiny-xlmr", case["truncation_max_length"], "reference")
    for side, wanted in case["input_ids"].items():
        split = [pieces_of(case, one[side]) for one in case["inputs"]]
        assert [row.ids for row in read(by, *(Item(t[-1], t[:-1]) for t in split))] == wanted


@every_family
@pytest.mark.parametrize(
    "literal", [*LITERALS, "</s></s>", "<</s>/s>", "x</s>y", " [SEP] [SEP]", "</s", "/s>"]
)
def test_a_special_token_written_out_changes_nothing_around_it(family: str, literal: str) -> None:
    plain_item, odd = (
        Item("the end", ("one", "two", "three")),
        Item("the end", ("one", f"a {literal} b", "three")),
    )
    plain, row = read(reader(family), plain_item, odd)
    t = tokenizer(family)
    assert special_places(t, row.ids) == [0, *joints(row.ids, t), len(row.ids) - 1]
    assert len(joints(row.ids, t)) == 3
    first, last = joints(row.ids, t)[0], joints(row.ids, t)[1]
    assert row.ids[:first] == plain.ids[: joints(plain.ids, t)[0]]
    assert row.ids[last:] == plain.ids[joints(plain.ids, t)[1] :]
    assert row.start == len(row.ids) - 1 - row.own
    assert (row.own, row.cut) == (plain.own, 0)


def special_places(t: Any, ids: list[int]) -> list[int]:
    return [
        i for i, token in enumerate(ids) if token in t.all_special_ids and token != t.unk_token_id
    ]


def joints(ids: list[int], t: Any) -> list[int]:
    return [i for i, token in enumerate(ids[:-1]) if token == t.sep_token_id]


@every_family
@pytest.mark.parametrize("literal", LITERALS)
def test_a_special_token_as_the_sentence(family: str, literal: str) -> None:
    whole, alone = read(reader(family), Item(f"a {literal} b", ("c",)), Item(literal))
    t = tokenizer(family)
    assert special_places(t, alone.ids) == [0, len(alone.ids) - 1]
    assert special_places(t, whole.ids) == [0, whole.start - 1, len(whole.ids) - 1]


HIDDEN = {  # what a normaliser makes a special token of
    "fullwidth": "a ＜/s＞ b",
    "fullwidth mask": "a ＜mask＞ b",
    "control": "a<\x01/s>b",
    "delete": "<\x7f/s>",
    "zero width": "<\u200b/s> <\u00ad/s> <ma\ufe0fsk>",
    "bracket": "［SEP］ [\x01SEP] [S\u00adEP]",
    "piece": "\u2581</s>",
}


@every_family
@pytest.mark.parametrize("kind", HIDDEN)
def test_a_special_token_in_disguise(family: str, kind: str) -> None:
    (row,) = read(reader(family), Item(HIDDEN[kind], ("c",)))
    t = tokenizer(family)
    assert special_places(t, row.ids) == [0, row.start - 1, len(row.ids) - 1]


@every_family
@given(
    text=st.text(st.sampled_from("</s>[SEP]<mask> a\x00\ud800＜＞／\u200b"), max_size=14),
    other=st.text(max_size=8),
)
@BOUNDED
def test_any_text_keeps_its_frame(family: str, text: str, other: str) -> None:
    by = reader(family)
    (row,), (same,) = (
        read(by, Item("the end", (text, other))),
        read(by, Item("the end", (text, other))),
    )
    assert row == same
    t = tokenizer(family)
    assert special_places(t, row.ids) == [0, *joints(row.ids, t), len(row.ids) - 1]
    assert row.ids[0] == t.cls_token_id
    assert row.ids[-1] == t.sep_token_id
    assert len(joints(row.ids, t)) == 2
    assert row.start == joints(row.ids, t)[-1] + 1
    assert row.whole == len(row.ids)


@every_family
def test_odd_texts(family: str) -> None:
    by = reader(family)
    half, mark = read(by, Item("a\ud800b"), Item("a?b"))
    assert half == mark
    empty, blank = read(by, Item(""), Item(" \t\n\u2028"))
    assert (
        empty
        == blank
        == ([tokenizer(family).cls_token_id, tokenizer(family).sep_token_id], 1, 2, 0, 0)
    )
    nothing, space = read(by, Item("", ("the end", "")), Item(" ", ("the end ", " ")))
    assert nothing == space
    assert nothing.start + nothing.own + 1 == len(nothing.ids) == nothing.whole
    padded, bare = read(by, Item("  the end\n"), Item("the end"))
    assert padded == bare
    (long,) = read(by, Item("the end " * 20000, ("before",)))
    assert (len(long.ids), long.start, long.cut) == (128, 1, 2)
    (short,) = read(by, Item("the end", ("before",)))
    assert long.whole - long.own == short.whole - short.own
    read(by, Item("\x00"), Item("a\x00b", ("\x00",)))


@every_family
def test_rows_do_not_depend_on_their_neighbours(family: str) -> None:
    items = [
        Item("the end", ("one", "two")),
        Item("two"),
        Item("", ("two",)),
        Item("the end"),
        Item("one", ("one",)),
    ]
    by = reader(family, 9)
    assert read(by, *items) == [row for item in items for row in read(by, item)]
    assert read(by, *items[::-1]) == read(by, *items)[::-1]


def test_byte_level_text_is_read_after_a_space_where_wanted() -> None:
    t = tokenizer("tiny-roberta")
    (row,) = read(reader("tiny-roberta", space_before=True), Item("the end"))
    assert row.ids[1:-1] == t(" the end", add_special_tokens=False).input_ids
    (bare,) = read(reader("tiny-roberta"), Item("the end"))
    assert bare.ids[1:-1] == t("the end", add_special_tokens=False).input_ids != row.ids[1:-1]
    for family in ("tiny-bert", "tiny-xlmr"):
        assert read(reader(family, space_before=True), Item("the end")) == read(
            reader(family), Item("the end")
        )


@pytest.mark.parametrize(
    ("template", "count"), [("$A", 0), ("$A [SEP]", 1), ("[CLS] [CLS] $A [SEP]", 3)]
)
def test_a_tokenizer_without_a_token_at_each_end_is_refused(template: str, count: int) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(
        models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3}, unk_token="[UNK]")
    )
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]")  # type: ignore[no-untyped-call]
    with pytest.raises(ModelLoadError, match=f"{count} special tokens"):
        Frame.of(made)
