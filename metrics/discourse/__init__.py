"""Discourse metrics: coherence by foci, cohesion and discourse roles."""
