"""What a GPU gives: values against the CPU's, rates beside plain loops, whole runs, and memory that runs out."""
