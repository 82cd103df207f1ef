"""Options of a subcommand, from the fields of the components it is made of.

A component is a frozen settings class (`MBRDecoder`, `InputOptions`, ...): its fields become flags, YAML keys and
``--set`` keys alike, and its docstring their help. Later wins: defaults, ``--config``, flags, ``--set``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn, get_origin, get_type_hints

from ...metrics.errors import InputError, unknown
from ...metrics.storage.json_and_yaml import read_yaml
from ...metrics.storage.limits import limits_of, set_limits
from ..terminal.argument_parser import PrintableParser
from .common_options import CommonOptions
from .components import FLAG_NAMES, build, build_group, field_helps
from .option_values import check_characters, metavar, plain_type, typed

ASSIGNMENTS = ("max",)  # options of one NAME=VALUE each, which may come several times
FIELD_NAMES = {flag: field for field, flag in FLAG_NAMES.items()}


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
        passed_over: options of other subcommands that a config file may have, and that change nothing here.
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
        passed_over: Sequence[str] = (),
    ) -> None:
        self.components = (*components, CommonOptions)
        self.groups = dict(groups or {})
        self.passed_over = frozenset(passed_over)
        self.types: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.positional = dict(positional or {})
        self.parser = PrintableParser(f"discorank {name}", description=about, allow_abbrev=False)
        for component in self.components:
            self._declare(component, hidden, defaults or {}, short or {})
        for group, component in self.groups.items():
            self._declare_group(group, component)
        self.parser.add_argument(
            "--config", metavar="FILE", help="YAML file, or the name of a preset, with any option"
        )
        self.parser.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="any option, as YAML"
        )
        self.parser.add_argument(
            "--print-config", action="store_true", help="print all options as YAML and stop"
        )

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
        for field in fields(component):
            name = field.name
            if name in hidden or name in self.types:
                continue
            default = None if field.default is MISSING else field.default
            self.types[name] = hints[name]
            self.defaults[name] = defaults.get(name, default)
            self._add(name, helps.get(name, ""), short.get(name))

    def _declare_group(self, group: str, component: type) -> None:
        """Makes options without flags of a component's fields."""
        hints = get_type_hints(component, include_extras=True)
        for field in fields(component):
            name = f"{group}.{field.name}"
            self.types[name] = hints[field.name]
            self.defaults[name] = field.default

    def _add(self, name: str, about: str, short: str | None) -> None:
        """Adds an option to the parser, as its type demands."""
        kind = self.types[name]
        default = self.defaults[name]
        shown = "" if default in (None, False, ()) else f" (default {default})"
        # without the marks for code of a docstring
        help_text = (about.replace("`", "") + shown).replace("%", "%%")
        extra: dict[str, Any] = {"default": argparse.SUPPRESS, "help": help_text}
        if name in self.positional:
            self.parser.add_argument(
                name, nargs=self.positional[name], metavar=name.upper(), **extra
            )
            return
        flags = [f"-{short}"] if short else []
        flags.append("--" + FLAG_NAMES.get(name, name).replace("_", "-"))
        extra["dest"] = name
        plain = plain_type(kind)
        if plain is bool:
            self.parser.add_argument(*flags, action=argparse.BooleanOptionalAction, **extra)
        elif name in ASSIGNMENTS:
            self.parser.add_argument(*flags, action="append", metavar="NAME=VALUE", **extra)
        elif get_origin(plain) is tuple:
            self.parser.add_argument(
                *flags, nargs="+", action="extend", metavar=name.upper(), **extra
            )
        else:
            self.parser.add_argument(*flags, metavar=metavar(kind, name), **extra)

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
        if config:
            values |= self._configured(config)
        for name, value in flags.items():
            if value not in (None, []):
                values[name] = self._typed(name, value)
        for assignment in assignments:
            values |= self._assigned(assignment)
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = tuple(value)
        self._check(values)
        if print_config:
            self._print(values)
        return values

    def _configured(self, config: str) -> dict[str, Any]:
        """The options that a config file sets."""
        values = read_yaml(_preset(config))
        own = {key: value for key, value in values.items() if not self._is_passed_over(key)}
        return self._known(own, config)

    def _is_passed_over(self, key: str) -> bool:
        """Whether an option of another subcommand is left as it is."""
        return FIELD_NAMES.get(key, key.replace("-", "_")) in self.passed_over

    def _assigned(self, assignment: str) -> dict[str, Any]:
        """The option that one --set KEY=VALUE sets."""
        key, mark, text = assignment.partition("=")
        if not mark:
            raise InputError(f"found {assignment!r}", where="--set", fix="Write key=value")
        key = key.strip()
        name = FIELD_NAMES.get(key, key)
        return self._known({name: self._typed(name, text)}, "--set")

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
        """Raises InputError for what is no number of processes, where no lists are shared, or beside Ray's workers."""
        jobs = values["jobs"]
        if jobs == "auto":
            return
        if type(jobs) is not int or jobs < 1:
            raise InputError(f"found {jobs!r}", where="--jobs", fix="Give auto, or 1 or more")
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
            named[FIELD_NAMES.get(key, key.replace("-", "_"))] = value
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
