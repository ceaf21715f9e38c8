"""cocotb benches of an emitted device; they run inside the simulator (see hwgen.sim.cocotb_driver)."""

__all__: list[str] = []
