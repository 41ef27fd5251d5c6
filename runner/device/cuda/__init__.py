"""The real device: the only package that imports pycuda and cuda.bindings."""
