"""Questions with one right answer, made by program from a seed: word problems, dates and units, tables.

    python -m benchmarks.choice_quality.questions SEED NUMBER > questions.jsonl

Writes NUMBER of them, the three kinds in turn, as lines that ``discorank generate --prompt '{prompt}'`` reads: id,
source (the question), references (the right answer), kind, form, and the prompt, which has three worked examples of the
same form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

NAMES = ("Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jonas")
THINGS = ("apples", "books", "stamps", "marbles", "tickets", "cards", "pens", "coins")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "March", "May", "July", "August", "October", "December")
UNITS = (
    ("weeks", "days", 7),
    ("centimetres", "millimetres", 10),
    ("dozen", "pieces", 12),
    ("metres", "centimetres", 100),
    ("hands", "fingers", 5),
    ("years", "months", 12),
)
NUM_EXAMPLES = 3


class Question(NamedTuple):
    """A question, its answer, and what is worked out before it."""

    text: str
    answer: str
    working: str = ""

    @property
    def worked(self) -> str:
        """The answer as an example has it."""
        return f"{self.working} The answer is {self.answer}.".strip()


def bought(random: Random) -> Question:
    """One sum."""
    a, b = random.randint(3, 25), random.randint(3, 25)
    name, thing = random.choice(NAMES), random.choice(THINGS)
    text = f"{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have now?"
    return Question(text, str(a + b), f"{a} + {b} = {a + b}.")


def given_away(random: Random) -> Question:
    """One difference."""
    a = random.randint(5, 30)
    b = random.randint(2, a - 2)
    name, thing = random.choice(NAMES), random.choice(THINGS)
    text = f"{name} has {a} {thing} and gives {b} away. How many {thing} are left?"
    return Question(text, str(a - b), f"{a} - {b} = {a - b}.")


def bought_and_given(random: Random) -> Question:
    """A sum and a difference."""
    a, b = random.randint(3, 15), random.randint(2, 12)
    c = random.randint(2, a)
    name, thing = random.choice(NAMES), random.choice(THINGS)
    text = f"{name} has {a} {thing}, buys {b} and then gives {c} away. How many {thing} are left?"
    return Question(text, str(a + b - c), f"{a} + {b} = {a + b}. {a + b} - {c} = {a + b - c}.")


def boxes(random: Random) -> Question:
    """One product."""
    a, b = random.randint(2, 9), random.randint(2, 12)
    thing = random.choice(THINGS)
    text = f"There are {b} {thing} in a box. How many {thing} are in {a} boxes?"
    return Question(text, str(a * b), f"{a} * {b} = {a * b}.")


def day_after(random: Random) -> Question:
    """A day of the week."""
    start, days = random.randrange(7), random.randint(1, 3)
    passed = [DAYS[(start + day) % 7] for day in range(1, days + 1)]
    when = "tomorrow" if days == 1 else f"in {days} days"
    text = f"Today is {DAYS[start]}. Which day is it {when}?"
    return Question(text, passed[-1], f"{', '.join(passed)}.")


def date_after(random: Random) -> Question:
    """A day of a month."""
    day, days, month = random.randint(1, 20), random.randint(2, 5), random.choice(MONTHS)
    text = f"Today is {month} {day}. Which date is it in {days} days?"
    return Question(text, f"{month} {day + days}", f"{day} + {days} = {day + days}.")


def units(random: Random) -> Question:
    """One unit in another."""
    large, small, factor = random.choice(UNITS)
    count = random.randint(2, 12)
    text = f"How many {small} are {count} {large}?"
    return Question(text, str(count * factor), f"{count} * {factor} = {count * factor}.")


def table_of(random: Random) -> tuple[str, dict[str, int], str]:
    """A table of three rows, its values by name, and what is counted."""
    names = random.sample(NAMES, 3)
    values = dict(zip(names, random.sample(range(2, 16), 3), strict=True))
    thing = random.choice(THINGS)
    rows = ", ".join(f"{name}: {value}" for name, value in values.items())
    return f"{thing.capitalize()} of each: {rows}.", values, thing


def value_in_table(random: Random) -> Question:
    """The value of a row."""
    table, values, thing = table_of(random)
    name = random.choice(list(values))
    return Question(f"{table} How many {thing} does {name} have?", str(values[name]))


def most_in_table(random: Random) -> Question:
    """The row of the largest value."""
    table, values, thing = table_of(random)
    best = max(values, key=values.__getitem__)
    working = f"The largest number is {values[best]}."
    return Question(f"{table} Who has the most {thing}?", best, working)


def sum_in_table(random: Random) -> Question:
    """The sum of two rows."""
    table, values, thing = table_of(random)
    one, other = random.sample(list(values), 2)
    total = values[one] + values[other]
    text = f"{table} How many {thing} do {one} and {other} have together?"
    return Question(text, str(total), f"{values[one]} + {values[other]} = {total}.")


Form = Callable[[Random], Question]
KINDS: Mapping[str, Sequence[Form]] = {
    "word-problem": (bought, given_away, bought_and_given, boxes),
    "date-or-unit": (day_after, date_after, units),
    "table": (value_in_table, most_in_table, sum_in_table),
}


def prompt_of(form: Form, text: str, random: Random) -> str:
    """What the model reads: worked examples of the form, and the question."""
    examples = [form(random) for _ in range(NUM_EXAMPLES)]
    worked = "".join(f"Question: {one.text}\nAnswer: {one.worked}\n\n" for one in examples)
    return f"{worked}Question: {text}\nAnswer:"


def questions(seed: int, number: int) -> Iterator[dict[str, object]]:
    """The lines of a prompt file; no question comes twice."""
    random, seen = Random(seed), set[str]()
    for i in range(number):
        kind = list(KINDS)[i % len(KINDS)]
        form = random.choice(KINDS[kind])
        question = form(random)
        while question.text in seen:
            form = random.choice(KINDS[kind])
            question = form(random)
        seen.add(question.text)
        yield {
            "id": f"{kind}:{i // len(KINDS)}",
            "source": question.text,
            "references": [question.answer],
            "kind": kind,
            "form": form.__name__,
            "prompt": prompt_of(form, question.text, random),
        }


if __name__ == "__main__":
    for line in questions(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(line, ensure_ascii=False))
