"""The C++ driver's random stalls, number by number."""

from __future__ import annotations

__all__ = ["Coin"]

MASK = (1 << 64) - 1


class Coin:
    """xorshift64*, seeded as ``Coin`` of cpp/io.h; :meth:`stall` is True with ``probability``."""

    def __init__(self, seed: int, stream: int, probability: float):
        self._state = ((seed * 256 + stream + 1) * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) & MASK or 1
        self._limit = int(probability * 4294967296.0)
        for _ in range(8):
            self._step()

    def stall(self) -> bool:
        """Draws once, if there are stalls at all."""
        return self._limit != 0 and (self._step() >> 32) < self._limit

    def _step(self) -> int:
        state = self._state
        state ^= state >> 12
        state ^= (state << 25) & MASK
        state ^= state >> 27
        self._state = state
        return (state * 0x2545F4914F6CDD1D) & MASK
