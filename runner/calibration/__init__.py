"""Calibration: a profile for the simulated device, fitted to what a run of `calibrate.yaml` measured."""
