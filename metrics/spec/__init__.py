"""How a metric is named: its settings, its signature, code of the user's own."""
