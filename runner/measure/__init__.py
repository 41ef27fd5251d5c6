"""Warm-up, samples, verification, validity flags and the record of the environment."""
