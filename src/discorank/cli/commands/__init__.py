"""One module per subcommand, or a folder where it has several parts."""
