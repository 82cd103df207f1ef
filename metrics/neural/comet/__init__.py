"""COMET: regression and unified models, their checkpoints and their head."""
