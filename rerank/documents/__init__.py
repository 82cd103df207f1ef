"""Documents: their lists made one, and the search for the choices that are best together."""
