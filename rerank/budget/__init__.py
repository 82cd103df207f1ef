"""Expected utilities from a part of the utility matrix, chosen as it is computed, with what may be lost by that."""
