"""Stands in for the package pynq: an overlay whose AXI DMA (simple mode) moves bytes between buffers and a socket that
keeps packets apart. Processor and DMA see a buffer through a cache; what the package refuses is refused, and what it
cannot see (a transfer into memory given back) is kept in ``faults``.
"""

import select
from pathlib import Path
from types import SimpleNamespace

import numpy as np

__all__ = ["PynqStandIn"]

HALTED, IDLE, INTERNAL = 1, 2, 0x10


class Buffer(np.ndarray):
    """What ``allocate`` gives; ``memory`` is what the DMA sees."""

    def flush(self):
        self.memory[:] = self.tobytes()

    def invalidate(self):
        self[:] = np.frombuffer(self.memory, np.uint8)

    def freebuffer(self):
        self.freed = True


class Channel:
    """One direction; ``calls`` are recorded in order."""

    def __init__(self, owner, sends):
        self.owner, self.sends = owner, sends
        self.status, self.active, self.length, self.first, self.transferred = 0, None, 0, True, 0

    def _step(self):
        """Moves a packet if one is there; the DMA's own doing."""
        wire = self.owner.wire
        if self.active is None or self.status & (IDLE | HALTED):
            return
        if self.active.freed:
            self.owner.faults.append("transfer of memory that was given back")
        if self.sends:
            if not self.owner.stuck and select.select([], [wire], [], 0)[1]:
                wire.send(bytes(self.active.memory[: self.length]))
                self.status |= IDLE
        elif select.select([wire], [], [], 0.001)[0]:
            packet = wire.recv(1 << 16)
            self.owner.packets += bool(packet)
            if not packet or len(packet) > self.length:
                self.status |= INTERNAL | HALTED
            else:
                self.active.memory[: len(packet)] = packet
                self.length = len(packet)
                self.status |= IDLE

    @property
    def running(self):
        return not self.status & HALTED

    @property
    def idle(self):
        self._step()
        return bool(self.status & IDLE)

    @property
    def error(self):
        return bool(self.status & 0x70)

    def transfer(self, array, start=0, nbytes=0):
        self.owner.calls.append(("send" if self.sends else "receive", nbytes))
        if not self.running:
            raise RuntimeError("DMA channel not started")
        if not self.idle and not self.first:
            raise RuntimeError("DMA channel not idle")
        nbytes = nbytes or array.nbytes - start
        if nbytes > self.owner.longest:
            raise ValueError(f"Transfer size is {nbytes} bytes")
        assert isinstance(array, Buffer)
        assert array.dtype == np.uint8
        assert nbytes <= array.nbytes - start
        if self.sends:
            array.flush()
        self.transferred, self.active, self.length, self.first = 0, array, nbytes, False
        self.status &= ~IDLE

    def wait(self):
        if not self.running and not self.error:
            raise RuntimeError("DMA channel not started")
        while not self.idle:
            if self.error:
                raise RuntimeError("DMA Internal Error (transfer length 0?)")
        if not self.sends:
            self.active.invalidate()
        self.transferred = self.length


class PynqStandIn:
    """Its DMA. ``wire``: the device's end; ``stuck``: it takes nothing; ``longest``: a transfer; ``resets`` False: its
    reset does not end."""

    def __init__(self, wire, longest=16383, stuck=False, resets=True, scatter=False):
        self.wire, self.longest, self.stuck, self.resets = wire, longest, stuck, resets
        self.calls, self.faults, self.buffers, self.packets = [], [], [], 0
        self.sendchannel, self.recvchannel = Channel(self, True), Channel(self, False)
        if scatter:
            self.sendchannel.halted = True
        self.mmio = SimpleNamespace(read=self._read, write=self._write)
        self._control = 1

    def _read(self, offset):
        assert offset == 0
        return self._control

    def _write(self, offset, value):
        self.calls.append(("register", (offset, value)))
        if value & 4:
            for channel in (self.sendchannel, self.recvchannel):
                channel.status, channel.active = HALTED, None
        self._control = 0 if self.resets else value

    @property
    def module(self):
        """What ``import pynq`` gives."""
        return SimpleNamespace(Overlay=self._overlay, allocate=self._allocate)

    def _overlay(self, bitstream):
        if not Path(bitstream).exists():
            raise OSError(f"{bitstream} does not exist.")
        return SimpleNamespace(axi_dma_0=self)

    def _allocate(self, shape, dtype):
        buffer = np.zeros(shape, dtype).view(Buffer)
        buffer.memory, buffer.freed = bytearray(buffer.nbytes), False
        self.buffers.append(buffer)
        return buffer
