"""Whether the chosen texts are better."""
