"""Devices: the contract, the real one on PyCUDA, the simulated one with its profiles, and the choice between them."""
