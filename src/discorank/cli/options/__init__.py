"""The options of subcommands, and what they name.

`command_options` makes them of the fields of `components`; `common_options` has those of every subcommand. `inputs`,
`engines`, `budget` and `server_backend` have those of several, and what they stand for.
"""

from .command_options import MODEL_OPTIONS, Options, build, build_group, field_helps, needed

__all__ = [
    "MODEL_OPTIONS",
    "Options",
    "build",
    "build_group",
    "field_helps",
    "needed",
]
