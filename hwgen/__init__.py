"""hwgen: a generator of FPGA hardware that trains neural networks."""

__all__ = ["__version__"]

__version__ = "0.1.0"
