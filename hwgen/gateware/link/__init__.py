"""The link between two boards: channels, frames, replay, credits."""

__all__: list[str] = []
