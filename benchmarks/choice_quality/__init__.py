"""Whether the chosen texts are better, and which metrics agree with people."""
