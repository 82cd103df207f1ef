"""The files of models: where they are, what they may be, what is refused before anything loads them, their digests."""
