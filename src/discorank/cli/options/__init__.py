"""The options of subcommands, and what they name.

`command_options` makes them of the fields of settings classes. The others have those of several subcommands, and what
they stand for.
"""

from .command_options import (
    MODEL_OPTIONS,
    EngineOptions,
    Options,
    ReadingOptions,
    build,
    build_group,
    field_helps,
    flag_of,
    needed,
)

__all__ = [
    "MODEL_OPTIONS",
    "EngineOptions",
    "Options",
    "ReadingOptions",
    "build",
    "build_group",
    "field_helps",
    "flag_of",
    "needed",
]
