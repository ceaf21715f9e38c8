"""The streams that a bench feeds and takes, as cpp/streams.h has them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from hwgen.sim.bench.coin import Coin
from hwgen.sim.bench.device import Device

__all__ = ["COMMAND", "FURTHER", "IMAGE", "LABEL", "REPLY", "RESULT", "Sink", "Source"]

IMAGE, LABEL, RESULT, COMMAND, REPLY, FURTHER = range(6)
"""Numbers of the random generators; those of further sources and then sinks follow."""


class Source:
    """A stream into the device: samples of some beats, queued by their numbers.

    ``valid`` stays up until it is taken; ports change only after a clock edge.
    """

    def __init__(self, device: Device, name: str, directory: Path, width: int, coin: Coin):
        self.device, self.name, self.coin = device, name, coin
        self.ordered = name in ("image", "label")
        self.inference, self.beats, self.every = name != "label", 1, 1
        path = directory / (f"{name}s.bin" if self.ordered else f"{name}.bin")
        if name == "image":
            self.beats = int(np.fromfile(directory / "shape.bin", dtype=np.uint32)[0])
        elif not self.ordered:
            lines = [line.split() for line in (directory / "sources.txt").read_text().splitlines()]
            ((beats, inference, every),) = (words[1:] for words in lines if words[0] == name)
            self.beats, self.inference, self.every = int(beats), inference != "0", int(every)
        self.samples = np.fromfile(path, dtype=np.uint32).reshape(-1, self.beats, width)
        self.queue: deque[int] = deque()
        self.beat = self.next = self.fed = 0
        self.taken = False

    def feed(self, number: int) -> None:
        """Queues the sample of that number, of streams without an order the next one; once in ``every`` calls."""
        if self.fed % self.every == 0:
            self.queue.append(number if self.ordered else self.next)
            self.next += 1
        self.fed += 1

    def moves(self) -> bool:
        """The device takes a beat in this cycle."""
        return bool(self.device.driven(f"{self.name}__valid") and self.device.read(f"{self.name}__ready"))

    def drive(self) -> None:
        """Sets the port for the next cycle."""
        if self.taken:
            self.device.drive(f"{self.name}__valid", 0)
        self.taken = False
        if self.device.driven(f"{self.name}__valid") or not self.queue or self.coin.stall():
            return
        words = self.samples[self.queue[0], self.beat]
        self.device.drive(f"{self.name}__payload", int.from_bytes(words.tobytes(), "little"))
        self.device.drive(f"{self.name}__valid", 1)

    def step(self) -> bool:
        """Notes a transfer; True with a sample's last beat."""
        self.taken = True
        self.beat += 1
        if self.beat < self.beats:
            return False
        self.beat = 0
        self.queue.popleft()
        return True


class Sink:
    """A stream out of the device, which holds its word until it is taken, and the file of its words."""

    def __init__(self, device: Device, name: str, file: Any, words: int, coin: Coin):
        self.device, self.name, self.file, self.words, self.coin = device, name, file, words, coin
        self.count = 0
        self._waiting: int | None = None

    def take(self) -> int | None:
        """The word that moves in this cycle."""
        device, name = self.device, self.name
        if not device.read(f"{name}__valid"):
            assert self._waiting is None, f"cycle {device.now}: {name} took back its valid"
            return None
        payload = device.read(f"{name}__payload")
        assert self._waiting in (None, payload), f"cycle {device.now}: {name} changed while it waited"
        moves = device.driven(f"{name}__ready")
        self._waiting = None if moves else payload
        self.count += bool(moves)
        return payload if moves else None

    def record(self) -> bool:
        """Writes down the word that moves in this cycle, if one does."""
        payload = self.take()
        if payload is not None:
            self.file.write(payload.to_bytes(4 * self.words, "little"))
        return payload is not None

    def drive(self) -> None:
        """Sets ready for the next cycle."""
        self.device.drive(f"{self.name}__ready", int(not self.coin.stall()))
