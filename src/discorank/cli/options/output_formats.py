"""Where rows go, and how they are written: as JSON lines, as texts, or in the formats of other tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Self

from ...integrations.formats.format_table import FEATURE, Order, writer_of
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Composed, Rare, changed, settings
from ...rerank.choice import Choice, RowForm
from ...rerank.runs.run import RunSettings


@settings
class OutputOptions:
    """Where rows go.

    Args:
        output: the file; stdout if not given.
    """

    heading: ClassVar = "output"

    output: str | None = None


@settings
class OutputFormatOptions:
    """In which format lists are written.

    Args:
        output_format: {formats:written}; JSON lines if not given.
        lossy: leave out what the format has no place for, instead of an error.
    """

    heading: ClassVar = "output"

    output_format: str | None = None
    lossy: Annotated[bool, Rare()] = False


@settings
class DecisionOptions:
    """How a decision stands in an n-best list.

    Args:
        order: with --output-format: candidates where they were (kept), or best first (choice); kept if not given, and
            choice for flat text.
        feature: with --output-format: the name of the decision among the features.
    """

    heading: ClassVar = "output"

    order: Annotated[Order | None, Rare()] = None
    feature: Annotated[str, Rare()] = FEATURE


@settings
class RunOptions:
    """Where the rows of a run go, and how they are written.

    Args:
        to: where rows go.
        settings: how the run writes.
        list_format: in which format lists are written.
        decision: how a decision stands in an n-best list.
    """

    to: Annotated[OutputOptions, Composed()] = OutputOptions()
    settings: Annotated[RunSettings, Composed()] = RunSettings()
    list_format: Annotated[OutputFormatOptions, Composed()] = OutputFormatOptions()
    decision: Annotated[DecisionOptions, Composed()] = DecisionOptions()

    def __post_init__(self) -> None:
        name = self.list_format.output_format
        if name is None:
            unused = {**changed(self.decision), "lossy": self.list_format.lossy}
            for option, value in unused.items():
                if value:
                    problem = "is for n-best lists"
                    raise InputError(problem, where=option, fix="Add --output-format")
            return
        writing = writer_of(name, "--output-format")
        if self.settings.format != "jsonl":
            raise _beside_a_format("format")
        if writing.holds is None and self.settings.max_errors:
            problem = "a list that is left out would shift the lines of all that follow"
            raise InputError(problem, where="max_errors", fix="Leave it out, or write moses")

    @property
    def output(self) -> str | None:
        """The file of the rows; stdout if there is none."""
        return self.to.output

    def every_rank(self, choice: Choice) -> Choice:
        """The choice, of every candidate where an n-best list is written; raises InputError if it is of some."""
        if self.list_format.output_format is None:
            return choice
        for name in ("nbest", "diverse"):
            if name in changed(choice):
                raise _beside_a_format(name)
        return replace(choice, nbest=None)

    def row_form(self) -> RowForm | None:
        """The form of rows; None where --format says it."""
        name = self.list_format.output_format
        if name is None:
            return None
        from ...integrations.formats.written_lists import DecidedRows

        has_features = writer_of(name).holds is not None
        order: Order = self.decision.order or ("kept" if has_features else "choice")
        return DecidedRows(name, order, self.decision.feature, self.list_format.lossy)

    def plain(self, output: str) -> Self:
        """The same as JSON lines in another file, without utilities."""
        run = replace(self.settings, format="jsonl", save_utilities=None)
        return replace(
            self,
            to=OutputOptions(output),
            settings=run,
            list_format=OutputFormatOptions(),
            decision=DecisionOptions(),
        )


def _beside_a_format(name: str) -> InputError:
    problem = "cannot be combined with --output-format, which writes every candidate"
    return InputError(problem, where=name, fix="Leave out one of them")
