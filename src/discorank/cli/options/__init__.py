"""The options of subcommands, and what they name.

`command_options` makes them of the parameters of a command's function. The other modules have the settings classes of
several subcommands, with methods for what they stand for: `InputOptions.opened`, `MetricOptions.load`,
`DecoderOptions.loaded`, `EngineSettings.opened`.
"""

from .command_options import Command, Given, command, field_helps, flag_of, needed

__all__ = [
    "Command",
    "Given",
    "command",
    "field_helps",
    "flag_of",
    "needed",
]
