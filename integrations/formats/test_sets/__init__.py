"""Test sets with the outputs of systems in the forms that others keep them in, as rows of a systems file, both ways."""
