"""Scenario kinds: one file a kind, each with its YAML model, its Plan and its figures."""
