"""The host's driver of a device that hwgen built: numpy and the standard library, nothing else of hwgen."""

__all__: list[str] = []
