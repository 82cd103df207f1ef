"""Parquet and Arrow files as lines of JSON, read in bounded memory and checked before they are unpacked; Ray Data."""
