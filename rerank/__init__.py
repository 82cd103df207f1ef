"""Choosing among candidates: candidate lists, MBR decoding, reranking, engines and runs."""
