"""The command line: `main`, its subcommands, their options, and the terminal."""
