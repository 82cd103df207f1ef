"""Presets: YAML files for ``--config``."""
