"""dmalab: declarative experiments on how bytes cross between host and GPU."""

__version__ = "0.1.0"
