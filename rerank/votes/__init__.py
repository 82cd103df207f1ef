"""The votes of a list, and how sure a model was of the texts that have them."""
