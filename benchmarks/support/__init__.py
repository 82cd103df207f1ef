"""What several benchmarks share: data sets, made-up lists, clocks, peers."""
