"""Options of a subcommand, from the fields of the components it is made of.

A component is a frozen settings class (`MBRDecoder`, `InputOptions`, ...): its fields become flags, YAML keys and
``--set`` keys alike, and its docstring their help, under the component's heading, or "options" without one. A field
that is `Rare` stands in ``--help-all`` alone. Later wins: defaults, ``--config``, flags, ``--set``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, fields
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

# options that name a sum of metrics or features, with their flags
OTHER_NAMES = {"utility": ("-u", "--utility"), "metric": ("-m", "--metric")}
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


class Options:
    """The options of one subcommand.

    Args:
        name: the subcommand.
        about: what it does, for its help.
        components: settings classes whose fields are its options.
        positional: options given by place, in order, with the number argparse takes ("?", "*").
        short: one-letter flags by option.
        hidden: fields that are no options.
        defaults: where the subcommand's differ from the components'.
        groups: settings classes by the prefix of their options (ray: ``ray.actors``), which have no flags.
        passed_over: settings classes of other subcommands: a config file may have their options, which change nothing
            here, but for those that do not go with what the subcommand needs and lacks.
        needs: capabilities (`capabilities`) that the subcommand needs: options that cost one are refused.
        lacks: capabilities that it does not have: options that need one are refused.
        first: the options that one needs first, which the short help explains.
        examples: command lines to begin with, without the name of the program.
        idle: settings classes that have no effect here: their options are refused.
    """

    def __init__(
        self,
        name: str,
        about: str,
        components: Sequence[type],
        positional: Mapping[str, str] | None = None,
        short: Mapping[str, str] | None = None,
        hidden: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
        groups: Mapping[str, type] | None = None,
        passed_over: Sequence[type] = (),
        needs: Sequence[str] = (),
        lacks: Sequence[str] = (),
        first: Sequence[str] = (),
        examples: Sequence[str] = (),
        idle: Sequence[type] = (),
    ) -> None:
        self.idle = frozenset(field.name for component in idle for field in fields(component))
        self.own = frozenset(field.name for component in components for field in fields(component))
        self.name, self.needs, self.lacks = name, needs, lacks
        self.components = (*components, ReadingOptions, EngineOptions, GeneralOptions)
        self.groups = dict(groups or {})
        self.types: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.positional = dict(positional or {})
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
            self._declare(component, hidden, defaults or {}, short or {})
        for group, component in self.groups.items():
            self._declare_group(group, component)
        self._declare_other_names()
        self.passed_over: dict[str, tuple[Any, tuple[Mark, ...]]] = {}
        for component in passed_over:
            marks = marks_of(component)
            for field in fields(component):
                self.passed_over[field.name] = (field.default, marks[field.name])
        general = self.headings["general"]
        general.add_argument(
            "--config", metavar="FILE", help="YAML file, or the name of a preset, with any option"
        )
        general.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="any option, as YAML"
        )
        self.parser.first = [*first, "help"]
        self.parser.examples = [f"discorank {line}" for line in examples]
        self.parser.hide(
            general.add_argument(
                "--print-config", action="store_true", help="print all options as YAML and stop"
            )
        )
        general.add_argument("-h", "--help", action="help", help="show this help, and stop")
        general.add_argument("--help-all", action=HelpAll, help="show rare options too, and stop")

    def _declare(
        self,
        component: type,
        hidden: Sequence[str],
        defaults: Mapping[str, Any],
        short: Mapping[str, str],
    ) -> None:
        """Makes options of a component's fields; a field that several components share is one option."""
        helps = field_helps(component)
        hints = get_type_hints(component, include_extras=True)
        parts, marks = parts_of(component), marks_of(component)
        heading = getattr(component, "heading", "options")
        for field in fields(component):
            name = field.name
            if name in parts:
                self._declare(parts[name], hidden, defaults, short)
                continue
            if name in self.types:
                self.marks[name] = self.marks[name] or marks[name]
            if name in hidden or name in self.types or Internal() in marks[name]:
                continue
            default = None if field.default is MISSING else field.default
            self.types[name] = hints[name]
            self.marks[name] = marks[name]
            self.defaults[name] = defaults.get(name, default)
            self._add(name, helps.get(name, ""), short.get(name), heading)

    def _declare_group(self, group: str, component: type) -> None:
        """Makes options without flags of a component's fields."""
        hints = get_type_hints(component, include_extras=True)
        for field in fields(component):
            name = f"{group}.{field.name}"
            self.types[name] = hints[field.name]
            self.defaults[name] = field.default

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

    def given(self, values: Mapping[str, Any]) -> list[str]:
        """The options with flags that are not at their defaults."""
        return [name for name in self.marks if values[name] != self.defaults[name]]

    def refuse_unread(self, values: Mapping[str, Any], mode: str, read: Collection[str]) -> None:
        """Raises InputError for an option of the subcommand's own components that a mode does not read.

        Args:
            values: of the options.
            mode: how an error names the mode, such as "--lists".
            read: the options that it reads.
        """
        for name in self.given(values):
            if name in self.own and name not in read:
                fix = "Leave it out, or run it by itself"
                raise InputError(f"has no effect beside {mode}", where=flag_of(name), fix=fix)

    def _refuse(self, marks: Mapping[str, Sequence[Mark]]) -> None:
        """Raises InputError for options that do not go together, or not with the subcommand."""
        by_flag = {flag_of(name): of_name for name, of_name in marks.items()}
        refuse_conflicts(by_flag, f"discorank {self.name}", self.needs, self.lacks)

    def _fits(self, name: str) -> bool:
        """Whether an option needs or costs nothing that does not go with the subcommand."""
        try:
            self._refuse({name: self.marks[name]})
        except InputError:
            return False
        return True

    def _add(self, name: str, about: str, short: str | None, heading: str) -> None:
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
        flags = [f"-{short}"] if short else []
        flags.append("--" + FLAG_NAMES.get(name, name).replace("_", "-"))
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
        if not self._fits(name) or name in self.idle:
            action.help = argparse.SUPPRESS
        elif Rare() in self.marks[name]:
            self.parser.hide(action)

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        """The value of every option; the bounds among them are in force from now on.

        Raises:
            InputError: an unknown key, a value that is not YAML, a config file that cannot be read.
            SystemExit: usage errors, ``--help`` and ``--print-config``.
        """
        flags = vars(self.parser.parse_known(arguments))
        config, assignments = flags.pop("config"), flags.pop("set")
        print_config = flags.pop("print_config")
        values = dict(self.defaults)
        given = [name for name, value in flags.items() if value not in (None, [])]
        if config:
            values |= self._configured(config)
        for name, value in flags.items():
            if value not in (None, []):
                values[name] = self._typed(name, value)
        for assignment in assignments:
            values |= self._assigned(assignment)
        for name, value in values.items():
            values[name] = _plain(value, name not in WRITTEN)
        self._check(values)
        if print_config:
            self._print(values)
        self._refuse_idle(given, values)
        return values

    def _refuse_idle(self, given: Sequence[str], values: Mapping[str, Any]) -> None:
        """Raises InputError for a flag that has no effect here, or not without another option."""
        for name in given:
            if name in self.idle:
                problem = f"has no effect: discorank {self.name} computes no metric"
                raise InputError(problem, where=flag_of(name), fix="Leave it out")
            for mark in self.marks.get(name, ()):
                others = mark.settings if isinstance(mark, Beside) else ()
                known = [other for other in others if other in self.types]
                if known and all(values[other] == self.defaults[other] for other in known):
                    flags = " or ".join(map(flag_of, known))
                    fix = f"Add {flags}, or leave it out"
                    raise InputError(f"has no effect without {flags}", where=flag_of(name), fix=fix)

    def _configured(self, config: str) -> dict[str, Any]:
        """The options that a config file sets."""
        values = read_yaml(_preset(config))
        own = {}
        for key, value in values.items():
            if not self._is_passed_over(key, value):
                own[key] = value
        return self._known(own, config)

    def _is_passed_over(self, key: str, value: Any) -> bool:
        """Whether an option of another subcommand is left as it is; raises InputError for one that does not fit."""
        name = self._field(key).replace("-", "_")
        if name in self.types or name not in self.passed_over:
            return False
        default, marks = self.passed_over[name]
        if value != default:
            self._refuse({name: marks})
        return True

    def _assigned(self, assignment: str) -> dict[str, Any]:
        """The option that one --set KEY=VALUE sets."""
        key, mark, text = assignment.partition("=")
        if not mark:
            raise InputError(f"found {assignment!r}", where="--set", fix="Write key=value")
        name = self._field(key.strip())
        return self._known({name: self._typed(name, text)}, "--set")

    def _field(self, key: str) -> str:
        """The name of the field that a key of YAML stands for."""
        name = next((field for field, flag in FLAG_NAMES.items() if flag == key), key)
        return name if name in self.types or name in self.passed_over else key

    def _print(self, values: Mapping[str, Any]) -> NoReturn:
        """Prints all options as YAML and stops."""
        import yaml

        plain = {}
        for name, value in values.items():
            key = FLAG_NAMES.get(name, name)
            plain[key] = list(value) if isinstance(value, tuple) else value
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
        raise SystemExit(0)

    def _check(self, values: Mapping[str, Any]) -> None:
        """Raises InputError for what is no text, for a wrong type or range where the component needs nothing else."""
        if values["engine"] not in ("local", "ray"):
            raise unknown("engine", str(values["engine"]), ("local", "ray"), where="--engine")
        for name, value in values.items():
            check_characters(value, FLAG_NAMES.get(name, name))
        self._check_jobs(values)
        self._refuse({name: self.marks[name] for name in self.given(values)})
        for component in self.components:
            if all(field.default is not MISSING for field in fields(component)):
                build(component, values)
        for group, component in self.groups.items():
            build_group(component, group, values)
        set_limits(limits_of(values["max"]))
        if values["engine"] not in ("local", *self.groups):
            raise InputError(
                "only decode, rerank and serve know it", where="--engine ray", fix="Leave it out"
            )

    def _check_jobs(self, values: Mapping[str, Any]) -> None:
        """Raises InputError for processes where no lists are shared, or beside Ray's workers."""
        jobs = values["jobs"]
        if jobs == 1:
            return
        if "ray" not in self.groups:
            raise InputError(
                "only decode, rerank and serve know it", where="--jobs", fix="Leave it out"
            )
        if values["engine"] == "ray":
            problem = "stands beside --engine ray, which has workers of its own"
            raise InputError(problem, where="--jobs", fix="Give --set ray.actors=N instead")

    def _known(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Values by the names of their fields and with their types; raises InputError for a key that is no option."""
        named = {}
        for key, value in self._flat(values).items():
            named[self._field(key).replace("-", "_")] = value
        for name in named:
            if name not in self.types:
                keys = [FLAG_NAMES.get(field, field) for field in self.types]
                raise unknown("option", name, keys, where=where)
        return {name: self._typed(name, value) for name, value in named.items()}

    def _flat(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values with those of a group, written as a mapping, by their prefixed names."""
        flat: dict[str, Any] = {}
        for name, value in values.items():
            if name in self.groups and isinstance(value, dict):
                flat |= {f"{name}.{key}": inner for key, inner in value.items()}
            else:
                flat[name] = value
        return flat

    def _typed(self, name: str, value: Any) -> Any:
        """A flag's text as the type of its field; where there is no such option, text as it is."""
        return typed(self.types.get(name.replace("-", "_"), str), value)


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


T = TypeVar("T")
# fields whose option cannot have the field's name, or needs no unit as it is given with one
FLAG_NAMES = {"input_format": "from", "deadline_seconds": "deadline", "choose": "choice"}


def build(component: type[T], values: Mapping[str, Any], **replaced: Any) -> T:
    """A component from the options that are its fields.

    Raises:
        InputError: as its constructor.
    """
    names = setting_names(component)
    own = {name: value for name, value in values.items() if name in names}
    try:
        return component(**{**own, **replaced})
    except InputError as error:
        raise _of_option(error, component, own.keys() - replaced.keys()) from None


def build_group(component: type[T], group: str, values: Mapping[str, Any]) -> T:
    """A component from the options with its group's prefix; errors as its constructor."""
    prefix = f"{group}."
    own = {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }
    try:
        return component(**own)
    except InputError as error:
        raise _of_option(error, component, own.keys(), prefix) from None


def _of_option(
    error: InputError, component: type, names: Collection[str], prefix: str = ""
) -> InputError:
    """The error about a setting, by the name of its option instead of the component's."""
    classes = {component.__name__, *(kind.__name__ for kind in parts_of(component).values())}
    if error.where in names and not prefix:
        return InputError(error.problem, where=flag_of(error.where), fix=error.fix)
    name, mark, rest = error.problem.partition(" = ")
    if error.where not in classes or not mark or name not in names:
        return error
    if prefix:
        return InputError(f"found {rest}", where=f"{prefix}{name}")
    return InputError(f"found {rest}", where=flag_of(name))


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--" + FLAG_NAMES.get(name, name).replace("_", "-")


EXAMPLES = {"--utility": "-u chrf", "--metric": "-m chrf"}


def needed(values: Mapping[str, Any], name: str, flag: str, example: str = "") -> Any:
    """The value of an option without a default; InputError, with an example for metrics, if it is missing."""
    if values.get(name) in (None, (), ""):
        example = example or EXAMPLES.get(flag, "")
        example = example and f", such as {example} (discorank metrics lists all),"
        fix = f"Give {flag} on the command line{example} or {name}: in --config"
        raise InputError("is missing", where=flag, fix=fix)
    return values[name]


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


MODEL_OPTIONS = ("model", "encoder_path", "tokenizer_path", "device", "dtype", "batch_tokens")


@settings
class ReadingOptions:
    """How metrics read texts, and with which model.

    Args:
        model: the model of metrics that have one, where they do not name it: a folder or a name on the hub.
        encoder_path: the encoder of checkpoints that come without configuration and tokenizer.
        tokenizer_path: the tokenizer of models that come without one, such as MetricX.
        lang: language of the texts, such as de, for metrics that depend on it (bleu's tokenizer, bertscore's encoder,
            prism).
        align: metrics of segments compare whole documents sentence by sentence, aligned by the metric itself, by the
            cheap chrf or by length; see aligned(METRIC).
        windows: metrics of segments read whole documents in overlapping windows of so many sentences, as many as fit;
            see windows(METRIC).
        split_sentences: makes documents of texts, for metrics of segments: lines, rule or pysbd:LANGUAGE; see
            split(METRIC).
    """

    heading: ClassVar = "utility"

    model: str | None = None
    encoder_path: Annotated[str | None, Rare()] = None
    tokenizer_path: Annotated[str | None, Rare()] = None
    lang: str | None = None
    align: Literal["metric", "chrf", "length"] | None = None
    windows: Annotated[int, Field(ge=1)] | None = None
    split_sentences: str | None = None


@settings
class EngineOptions:
    """Where metrics run.

    Args:
        engine: where metrics run: local, or ray, for decode, rerank and serve (its settings: --set ray.actors=2).
        jobs: processes that share the lists of decode and rerank, with the same output; each loads the metrics itself.
        device: where models run, such as cpu or cuda:0; the first GPU if there is one.
        dtype: precision of models: float32, bfloat16 or float16.
        batch_tokens: tokens in one batch of a model; chosen by device if not given.
        cache: a folder that keeps what models made of texts, for later runs.
        cache_bytes: how many bytes are kept there.
    """

    heading: ClassVar = "engine"

    engine: Literal["local", "ray"] = "local"
    jobs: Annotated[int, Field(ge=1)] = 1
    device: str | None = None
    dtype: Annotated[str | None, Rare()] = None
    batch_tokens: Annotated[int | None, Rare()] = None
    cache: str | None = None
    cache_bytes: Annotated[int, Field(ge=1), Beside("cache"), Rare()] = 10**10


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
