"""XCOMET: a sentence score, and the mistakes of a hypothesis with their severity."""
