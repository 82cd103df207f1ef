"""How good metrics, judges and the discourse parser are: agreement with people, and what they find right."""
