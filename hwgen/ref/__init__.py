"""The bit-exact numpy reference of everything the hardware computes."""

__all__: list[str] = []
