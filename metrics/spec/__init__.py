"""How a metric is named: its settings, its signature, digests of its files, functions of the user's own."""
