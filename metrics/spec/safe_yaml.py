"""Reads a YAML mapping from a file that may be hostile: size, aliases, duplicate keys and depth are bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError, excerpt
from .small_files import read_small_file

# what PyYAML raises, beside its own errors, on dates and numbers out of range and on strange keys
_LOADER_ERRORS = (ValueError, TypeError, AttributeError, OverflowError, KeyError, IndexError)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InputError: the file cannot be read, is too large, is not UTF-8, is not YAML or not a mapping, or holds an
            alias (aliases can make a small file expand without bound) or a key twice.
    """
    data = read_small_file(path, "Give a YAML file of settings, which are small", name="yaml_bytes")
    try:
        return parse_yaml(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 at byte {error.start}",
            where=str(path),
            fix="Save it as UTF-8",
        ) from error
    except InputError as error:
        raise error.inside(str(path)) from None


def parse_yaml(text: str) -> dict[str, Any]:
    """The mapping in a YAML text; errors as `read_yaml`."""
    mapping = parse_value(text)
    if not isinstance(mapping, dict) or not all(isinstance(key, str) for key in mapping):
        raise InputError(
            f"found {excerpt(mapping)}, expected a mapping with text keys",
            fix="Write it as key: value lines",
        )
    return mapping


def parse_value(text: str) -> Any:
    """The value that a YAML text holds; errors as `read_yaml`."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Plain data only, every node written out once."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"alias in line {self.line + 1}: write the value out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            mapping = super().construct_mapping(node, deep=deep)
            if len(mapping) != len(node.value):
                line = node.start_mark.line + 1
                raise yaml.YAMLError(f"a key stands twice in the mapping at line {line}")
            return mapping

    try:
        loader = Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except RecursionError as error:
        raise InputError("nested too deeply", fix="Settings are flat") from error
    except (yaml.YAMLError, *_LOADER_ERRORS) as error:
        message = " ".join(str(error).split())[:200]
        raise InputError(f"not YAML: {message}", fix="Check the syntax") from error
