"""What benchmarks run in the interpreter of another environment, and how they talk to it; nothing imports discorank."""
