"""The report: one HTML page, complete in itself, on a comparison of systems and on what a decoder chose."""
