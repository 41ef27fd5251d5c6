"""The simulated device: a discrete-event model with integer nanoseconds, driven by a profile."""
