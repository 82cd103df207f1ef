"""DiscoScore and its baselines: foci, entities, sentence graphs and cohesion."""
