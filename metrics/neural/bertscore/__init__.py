"""BERTScore: greedy matching of token vectors."""
