"""Discourse roles of sentences: where they come from, and PDD and role match over them."""
