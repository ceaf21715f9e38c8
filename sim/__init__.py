"""Simulation of the generated hardware, compared bit for bit with the reference (installs as hwgen.sim)."""

__all__: list[str] = []
