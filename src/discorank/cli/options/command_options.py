"""Options of a command, from the parameters of the function that runs it.

    @command("Choose from every list ...", short={"output": "o"}, first=["input"], examples=[...])
    def decode(input: InputOptions, decoder: DecoderOptions, metrics: MetricOptions) -> int:

A parameter is a frozen settings class: its fields become flags, YAML keys and ``--set`` keys alike, and its docstring
their help, under the class's heading, or "options" without one. A field that is `Rare` stands in ``--help-all`` alone.
Later wins: defaults, ``--config``, flags, ``--set``. All checks of options are made here, before the function runs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ...metrics.errors import InputError, unknown
from ...metrics.spec.checked_settings import (
    Field,
    Internal,
    Mark,
    Rare,
    marks_of,
    parts_of,
    setting_names,
    settings,
)
from ...metrics.storage.bundled_files import bundled
from ...metrics.storage.json_and_yaml import parse_yaml_value, read_yaml
from ...metrics.storage.limits import limits_of, set_limits
from ...rerank.capabilities import Beside, refuse_conflicts
from ..terminal.argument_parser import HelpAll, PrintableParser
from ..terminal.console import set_quiet

T = TypeVar("T")
# fields whose option cannot have the field's name, or needs no unit as it is given with one
FLAG_NAMES = {"input_format": "from", "deadline_seconds": "deadline", "choose": "choice"}
# options that name a sum of metrics or features, with their flags
OTHER_NAMES = {"utility": ("-u", "--utility"), "metric": ("-m", "--metric")}
EXAMPLES = {"utility": "-u chrf", "metric": "-m chrf"}
WRITTEN = ("output", "save", "save_utilities")  # options that name what is written
ASSIGNMENTS = ("max",)  # options of one NAME=VALUE each, which may come several times
# the headings of options in the help, in order, and what stands under them
HEADINGS = {
    "options": "",
    "input": "Where texts come from.",
    "judgements": "What people said of texts.",
    "candidates": "How candidates are drawn.",
    "scores": "How scores are answered.",
    "utility": "What texts are compared by.",
    "pool": "Which texts count as pseudo-references, and how much.",
    "estimator": "How expected utilities come from pairs: from all, or from some.",
    "choice": "What is chosen.",
    "order": "Where the context of a list comes from.",
    "statistics": "How numbers are compared.",
    "output": "Where rows go, and how they are written.",
    "server": "How servers are reached, and what they take.",
    "engine": "Where metrics run.",
    "general": "",
}


@dataclass(frozen=True)
class Grouped(Mark):
    """A setting that is a value whose settings are keys with its name in front, and no flags: ray.actors."""


@settings
class ReadingOptions:
    """How metrics read texts, and with which model.

    Args:
        model: the model of metrics that have one, where they do not name it: a folder or a name on the hub.
        encoder_path: the encoder of checkpoints that come without configuration and tokenizer.
        tokenizer_path: the tokenizer of models that come without one, such as MetricX.
        lang: language of the texts, such as de, for metrics that depend on it (bleu's tokenizer, bertscore's encoder,
            prism).
    """

    heading: ClassVar = "utility"

    model: str | None = None
    encoder_path: Annotated[str | None, Rare()] = None
    tokenizer_path: Annotated[str | None, Rare()] = None
    lang: str | None = None


@settings
class ModelOptions:
    """How models run.

    Args:
        device: where models run, such as cpu or cuda:0; the first GPU if there is one.
        dtype: precision of models: float32, bfloat16 or float16.
        batch_tokens: tokens in one batch of a model; chosen by device if not given.
        cache: a folder that keeps what models made of texts, for later runs.
        cache_bytes: how many bytes are kept there.
    """

    heading: ClassVar = "engine"

    device: str | None = None
    dtype: Annotated[str | None, Rare()] = None
    batch_tokens: Annotated[int | None, Rare()] = None
    cache: str | None = None
    cache_bytes: Annotated[int, Field(ge=1), Beside("cache"), Rare()] = 10**10


@settings
class WorkerOptions:
    """Which processes compute.

    Args:
        engine: where metrics run: local, or ray, for decode, rerank and serve (its settings: --set ray.actors=2).
        jobs: processes that share the lists of decode and rerank, with the same output; each loads the metrics itself.
    """

    heading: ClassVar = "engine"

    engine: Literal["local", "ray"] = "local"
    jobs: Annotated[int, Field(ge=1)] = 1

    def __post_init__(self) -> None:
        if self.engine == "ray" and self.jobs > 1:
            problem = "cannot be combined with --engine ray, which has workers of its own"
            raise InputError(problem, where="jobs", fix="Give --set ray.actors=N instead")


@settings
class GeneralOptions:
    """Options of every subcommand.

    Args:
        max: another bound on what is read, such as candidates=100000; discorank docs security.
        quiet: say nothing on stderr but errors.
    """

    heading: ClassVar = "general"

    max: Annotated[tuple[str, ...], Rare()] = ()
    quiet: bool = False


# a config file may have these for other commands; where a command has no such options, they change nothing
FOR_ANY_COMMAND = (ReadingOptions, ModelOptions, WorkerOptions)


class Given:
    """The options of one command line.

    Attributes:
        values: the value of every option, by its name.
        marks: what is declared of the options that are not at their defaults, by their flags.
        names: of these.
    """

    def __init__(self, values: Mapping[str, Any], marks: Mapping[str, tuple[Mark, ...]]) -> None:
        self.values, self.names = values, marks.keys()
        self.marks = {flag_of(name): of_name for name, of_name in marks.items()}

    def component(self, kind: type[T]) -> T | None:
        """A settings class with the options that are its fields; None where one without a default is not given.

        Raises:
            InputError: as its constructor.
        """
        missing = {field.name for field in fields(kind) if field.default is MISSING}  # type: ignore[arg-type]
        return None if missing - set(self.names) else build(kind, self.values)

    def refuse(self, names: Iterable[str], problem: str, fix: str = "Leave it out") -> None:
        """Raises InputError, with the problem, for an option among some that is not at its default."""
        for name in names:
            if name in self.names:
                raise InputError(problem, where=flag_of(name), fix=fix)


class Command:
    """A subcommand: a function, and the options that its parameters stand for.

    Args:
        function: what runs; its parameters are settings classes, or `Given`.
        name: the subcommand.
        about: what it does, for its help.
        positional: options given by place, in order, with the number argparse takes ("?", "*").
        short: one-letter flags by option.
        hidden: fields that are no options.
        defaults: where the subcommand's differ from the components'.
        passed_over: settings classes of other subcommands: a config file may have their options, which change nothing
            here, but for those that do not go with what the subcommand needs and lacks.
        needs: capabilities (`capabilities`) that the subcommand needs: options that cost one are refused.
        lacks: capabilities that it does not have: options that need one are refused.
        first: the options that one needs first, which the short help explains.
        examples: command lines to begin with, without the name of the program.
    """

    def __init__(
        self,
        function: Callable[..., int | None],
        name: str,
        about: str,
        positional: Mapping[str, str] | None = None,
        short: Mapping[str, str] | None = None,
        hidden: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
        passed_over: Sequence[type] = (),
        needs: Sequence[str] = (),
        lacks: Sequence[str] = (),
        first: Sequence[str] = (),
        examples: Sequence[str] = (),
    ) -> None:
        self.function, self.parameters = function, get_type_hints(function)
        self.parameters.pop("return")
        components = [plain_type(kind) for kind in self.parameters.values() if kind is not Given]
        self.name, self.needs, self.lacks = name, needs, lacks
        self.components = (*components, GeneralOptions)
        self.types: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.positional = dict(positional or {})
        self.short, self.hidden, self.own_defaults = short or {}, hidden, defaults or {}
        self.marks: dict[str, tuple[Mark, ...]] = {}
        usage = " ".join(
            [f"discorank {name} [options]", *map(_shown_place, self.positional.items())]
        )
        self.parser = PrintableParser(
            f"discorank {name}", usage=usage, description=about, allow_abbrev=False, add_help=False
        )
        self.headings = {
            title: self.parser.add_heading(title, about) for title, about in HEADINGS.items()
        }
        for component in self.components:
            self._declare(component)
        self._declare_other_names()
        self.passed_over: dict[str, tuple[Any, tuple[Mark, ...]]] = {}
        for component in (*passed_over, *FOR_ANY_COMMAND):
            marks = marks_of(component)
            for field in fields(component):
                self.passed_over[field.name] = (field.default, marks[field.name])
        self._declare_general()
        self.parser.first = [*first, "help"]
        self.parser.examples = [f"discorank {line}" for line in examples]

    def _declare_general(self) -> None:
        """Adds the options that are no settings."""
        general = self.headings["general"]
        general.add_argument(
            "--config", metavar="FILE", help="YAML file, or the name of a preset, with any option"
        )
        general.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="any option, as YAML"
        )
        self.parser.hide(
            general.add_argument(
                "--print-config", action="store_true", help="print all options as YAML and stop"
            )
        )
        general.add_argument("-h", "--help", action="help", help="show this help, and stop")
        general.add_argument("--help-all", action=HelpAll, help="show rare options too, and stop")

    def _declare(self, component: type, group: str = "") -> None:
        """Makes options of a component's fields; a field that several components share is one option.

        Args:
            component: a settings class.
            group: what the names of its options begin with, which have no flags.
        """
        helps = field_helps(component)
        hints = get_type_hints(component, include_extras=True)
        parts, marks = parts_of(component), marks_of(component)
        heading = getattr(component, "heading", "options")
        for field in fields(component):
            name = f"{group}{field.name}"
            if name in parts:
                self._declare(parts[name])
                continue
            if Grouped() in marks[field.name]:
                self._declare(plain_type(hints[name]), f"{name}.")
                continue
            if name in self.types:
                self.marks[name] = self.marks[name] or marks[name]
            if name in self.hidden or name in self.types or Internal() in marks[field.name]:
                continue
            default = None if field.default is MISSING else field.default
            self.types[name] = hints[field.name]
            self.defaults[name] = self.own_defaults.get(name, default)
            if not group:
                self.marks[name] = marks[name]
                self._add(name, helps.get(name, ""), heading)

    def _declare_other_names(self) -> None:
        """Flags for the sum that decides, where a command has one of -u and -m: the other means the same."""
        for name, flags in OTHER_NAMES.items():
            own = next((own for own in OTHER_NAMES if own != name and own in self.types), None)
            if name in self.types or own is None:
                continue
            several: dict[str, Any] = {"nargs": "+", "action": "extend"}
            is_tuple = get_origin(plain_type(self.types[own])) is tuple
            self.parser.add_argument(
                *flags,
                dest=own,
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
                **(several if is_tuple else {}),
            )

    def given(self, values: Mapping[str, Any]) -> Given:
        """The options, of which those with flags may be at their defaults or not."""
        changed = {
            name: own for name, own in self.marks.items() if values[name] != self.defaults[name]
        }
        return Given(values, changed)

    def _refuse(self, marks: Mapping[str, Sequence[Mark]]) -> None:
        """Raises InputError for options, by their flags, that do not go together, or not with the subcommand."""
        refuse_conflicts(marks, f"discorank {self.name}", self.needs, self.lacks)

    def _fits(self, name: str) -> bool:
        """Whether an option needs or costs nothing that does not go with the subcommand."""
        try:
            self._refuse({flag_of(name): self.marks[name]})
        except InputError:
            return False
        return True

    def _add(self, name: str, about: str, heading: str) -> None:
        """Adds an option to the parser, as its type demands, under a heading."""
        kind = self.types[name]
        default = self.defaults[name]
        shown = "" if default in (None, False, ()) else f" (default {default})"
        # without the marks for code of a docstring
        help_text = (about.replace("`", "") + shown).replace("%", "%%")
        extra: dict[str, Any] = {"default": argparse.SUPPRESS, "help": help_text}
        group = self.headings[heading]
        if name in self.positional:
            number = self.positional[name]
            group.add_argument(name, nargs=number, metavar=name.upper(), **extra)
            return
        flags = [f"-{self.short[name]}"] if name in self.short else []
        flags.append(flag_of(name))
        extra["dest"] = name
        plain = plain_type(kind)
        if plain is bool:
            action = group.add_argument(*flags, action=argparse.BooleanOptionalAction, **extra)
        elif name in ASSIGNMENTS:
            action = group.add_argument(*flags, action="append", metavar="NAME=VALUE", **extra)
        elif get_origin(plain) is tuple:
            shown_value = name.upper()
            action = group.add_argument(
                *flags, nargs="+", action="extend", metavar=shown_value, **extra
            )
        else:
            action = group.add_argument(*flags, metavar=metavar(kind, name), **extra)
        if not self._fits(name):
            action.help = argparse.SUPPRESS
        elif Rare() in self.marks[name]:
            self.parser.hide(action)

    def run(self, arguments: Sequence[str]) -> int:
        """Runs the command with a command line; returns the exit code.

        Raises:
            InputError: as `given_in`; and as the function, where the name of a setting is that of its flag.
        """
        given = self.given_in(arguments)
        values: dict[str, Any] = {}
        for name, kind in self.parameters.items():
            values[name] = given if kind is Given else given.component(plain_type(kind))
        try:
            return self.function(**values) or 0
        except InputError as error:
            if type(error) is InputError and error.where in self.marks:
                raise InputError(error.problem, where=flag_of(error.where), fix=error.fix) from None
            raise

    def given_in(self, arguments: Sequence[str]) -> Given:
        """The options that a command line gives; its limits and its quiet are in force from now on.

        Raises:
            InputError: an unknown key, a value that is not YAML, a config file that cannot be read, values that are out
                of range or do not go together.
            SystemExit: usage errors, ``--help`` and ``--print-config``.
        """
        flags = vars(self.parser.parse_known(arguments))
        config, assignments = flags.pop("config"), flags.pop("set")
        print_config = flags.pop("print_config")
        flags = {name: value for name, value in flags.items() if value not in (None, [])}
        configured = self._configured(config) if config else {}
        values = {**self.defaults, **configured}
        values |= {name: typed(self.types[name], value) for name, value in flags.items()}
        for assignment in assignments:
            key, mark, text = assignment.partition("=")
            if not mark:
                raise InputError(f"found {assignment!r}", where="--set", fix="Write key=value")
            values |= self._known({key.strip(): text}, "--set")
        for name, value in values.items():
            values[name] = _plain(value, name not in WRITTEN)
            check_characters(values[name], FLAG_NAMES.get(name, name))
        given = self.given(values)
        self._refuse(given.marks)
        for component in self.components:
            given.component(component)  # which checks it
        general = build(GeneralOptions, values)
        set_limits(limits_of(general.max))
        set_quiet(general.quiet)
        if print_config:
            self._print(values)
        self._refuse_without_effect(flags, values)
        return given

    def _refuse_without_effect(self, flags: Collection[str], values: Mapping[str, Any]) -> None:
        """Raises InputError for a flag that has no effect without another option."""
        for name in flags:
            for mark in self.marks.get(name, ()):
                others = mark.names if isinstance(mark, Beside) else ()
                known = [other for other in others if other in self.types]
                if known and all(values[other] == self.defaults[other] for other in known):
                    beside = " or ".join(map(flag_of, known))
                    fix = f"Add {beside}, or leave it out"
                    raise InputError(
                        f"has no effect without {beside}", where=flag_of(name), fix=fix
                    )

    def _configured(self, config: str) -> dict[str, Any]:
        """The options that a config file sets, without those of other subcommands that change nothing here.

        Raises:
            InputError: it cannot be read, or one does not go with the subcommand.
        """
        own = {}
        for key, value in read_yaml(_preset(config)).items():
            name = _field(key)
            if name in self.types or name not in self.passed_over:
                own[key] = value
            elif value != self.passed_over[name][0]:
                self._refuse({flag_of(name): self.passed_over[name][1]})
        return self._known(own, config)

    def _print(self, values: Mapping[str, Any]) -> NoReturn:
        """Prints all options as YAML and stops."""
        import yaml

        plain = {}
        for name, value in values.items():
            key = FLAG_NAMES.get(name, name)
            plain[key] = list(value) if isinstance(value, tuple) else value
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
        raise SystemExit(0)

    def _known(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Values by the names of their fields and with their types; raises InputError for a key that is no option."""
        named: dict[str, Any] = {}
        for key, value in values.items():
            if isinstance(value, dict) and any(name.startswith(f"{key}.") for name in self.types):
                named |= {_field(f"{key}.{inner}"): of_group for inner, of_group in value.items()}
            else:
                named[_field(key)] = value
        for name in named:
            if name not in self.types:
                keys = [FLAG_NAMES.get(field, field) for field in self.types]
                raise unknown("option", name, keys, where=where)
        return {name: typed(self.types[name], value) for name, value in named.items()}


def _field(key: str) -> str:
    """The name of the field that a key of YAML stands for."""
    return next((name for name, flag in FLAG_NAMES.items() if flag == key), key.replace("-", "_"))


def command(
    about: str, name: str = "", **how: Any
) -> Callable[[Callable[..., int | None]], Command]:
    """Makes a subcommand of a function, whose parameters are settings classes, or `Given`.

    A class with a setting that has no default is None where that is not given: ``connection: Connection | None``.

    Args:
        about: what it does, for its help.
        name: the subcommand; that of the function if not given.
        how: further arguments of `Command`.
    """
    return lambda function: Command(function, name or function.__name__, about, **how)


def _plain(value: Any, is_read: bool) -> Any:
    """An option's value, lists as tuples; in what is read, with the files that ``examples:NAME`` stands for."""
    if isinstance(value, list | tuple):
        return tuple(_plain(inner, is_read) if isinstance(inner, str) else inner for inner in value)
    return bundled(value) if is_read and isinstance(value, str) else value


def _shown_place(option: tuple[str, str]) -> str:
    """An option that is given by place, as usage lines show it."""
    name, number = option
    return f"[{name.upper()}{' ...' if number == '*' else ''}]"


def _preset(name: str) -> Path:
    """The file a --config names: a preset of discorank, whatever stands in the working directory, or a path."""
    from importlib.resources import files

    folder = Path(str(files("discorank.configs")))
    presets = {preset.stem: preset for preset in folder.glob("*.yaml")}
    if name in presets:
        return presets[name]
    path = Path(name)
    if not path.exists() and not path.suffix:
        raise unknown("preset", name, presets, where="--config")
    return path


def build(component: type[T], values: Mapping[str, Any], group: str = "", **replaced: Any) -> T:
    """A component from the options that are its fields.

    Args:
        component: a settings class.
        values: of options by name.
        group: what the names of its options begin with.
        replaced: settings that are not options, or stand for them.

    Raises:
        InputError: as its constructor.
    """
    kind: Any = component
    own = {n: values[f"{group}{n}"] for n in setting_names(kind) if f"{group}{n}" in values}
    for name, marks in marks_of(kind).items():
        if Grouped() in marks:
            own[name] = build(get_type_hints(kind)[name], values, f"{name}.")
    try:
        return component(**{**own, **replaced})
    except InputError as error:
        raise _of_option(error, component, own.keys() - replaced.keys(), group) from None


def _of_option(
    error: InputError, component: type, names: Collection[str], prefix: str
) -> InputError:
    """The error about a setting, by the name of its option instead of the component's."""
    classes = {component.__name__, *(kind.__name__ for kind in parts_of(component).values())}
    if error.where in names and not prefix:
        return InputError(error.problem, where=flag_of(error.where), fix=error.fix)
    name, mark, rest = error.problem.partition(" = ")
    if error.where not in classes or not mark or name not in names:
        return error
    where = f"{prefix}{name}" if prefix else flag_of(name)
    return InputError(f"found {rest}", where=where)


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--" + FLAG_NAMES.get(name, name).replace("_", "-")


def needed(value: T | None, name: str, shown: str = "", example: str = "") -> T:
    """The value of an option without a default.

    Args:
        value: of the option.
        name: of the option.
        shown: how the command line shows it, where it is no flag.
        example: of a metric.

    Raises:
        InputError: it is missing, with an example for metrics.
    """
    if value is None or value in ((), ""):
        flag = shown or flag_of(name)
        example = example or EXAMPLES.get(name, "")
        example = example and f", such as {example} (discorank metrics lists all),"
        fix = f"Give {flag} on the command line{example} or {name}: in --config"
        raise InputError("is missing", where=flag, fix=fix)
    return value


def field_helps(component: type) -> dict[str, str]:
    """Help of every field, from the ``Args:`` part of the class's docstring."""
    doc = component.__doc__ or ""
    part = doc.partition("Args:")[2].partition("Raises:")[0]
    entries = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w+: |\Z)", part, re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in entries}


def typed(kind: Any, value: Any) -> Any:
    """A flag's text as the type of its field: text stays text, everything else is read as YAML."""
    if isinstance(value, list) and _holds_numbers(kind):
        return [parse_yaml_value(text) if isinstance(text, str) else text for text in value]
    kinds = _alternatives(kind)
    if not isinstance(value, str) or str in kinds:
        return value
    words = {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}
    if words and (value in words or not kinds & {int, float}):
        return value
    if value == "all" or (value == "None" and NoneType in kinds):
        return None
    parsed = parse_yaml_value(value)
    return _number(parsed) if float in kinds and isinstance(parsed, str) else parsed


def _holds_numbers(kind: Any) -> bool:
    """Whether an option takes several values that are no texts."""
    plain = plain_type(kind)
    return get_origin(plain) is tuple and str not in _alternatives(get_args(plain)[0])


def _number(text: str) -> float | str:
    """A number that YAML does not take for one, such as 1e-1."""
    try:
        return float(text)
    except ValueError:
        return text


def check_characters(value: Any, where: str) -> None:
    """Raises InputError for what no file can hold as text: a NUL, bytes that are not UTF-8."""
    texts = value if isinstance(value, tuple) else (value,)
    text = "".join(text for text in texts if isinstance(text, str))
    if "\0" in text:
        raise InputError("holds a NUL character", where=where, fix="Leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        fix = "Rename the file, or write it in UTF-8"
        raise InputError("holds bytes that are not UTF-8", where=where, fix=fix) from None


def plain_type(kind: Any) -> Any:
    """The type without Annotated and without None."""
    if get_origin(kind) is Annotated:
        return plain_type(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        rest = [plain_type(inner) for inner in get_args(kind) if inner is not NoneType]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _alternatives(kind: Any) -> set[Any]:
    """The types that a union is of; a type that is none stands alone."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return set().union(*map(_alternatives, get_args(kind)))
    return {kind}


def metavar(kind: Any, name: str) -> str:
    """The name of a value in help: its choices where it has some, else the name of the option."""
    plain = plain_type(kind)
    if get_origin(plain) is not Literal:
        return name.upper()
    return "{" + ",".join(map(str, get_args(plain))) + "}"
