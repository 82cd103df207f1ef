"""The process and its terminal: arguments, signals, standard streams, progress."""
