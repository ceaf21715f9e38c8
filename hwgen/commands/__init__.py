"""The commands of ``hwgen``, one file each: its arguments and what it does with them."""

__all__: list[str] = []
