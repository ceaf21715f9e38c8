"""The C++ driver's twin: runs a program cycle for cycle the same, and checks the manners of the results."""

from __future__ import annotations

import struct
import time
from collections import deque
from typing import Any, BinaryIO

import cocotb
import numpy as np
from hwgen.sim.bench.coin import Coin
from hwgen.sim.bench.device import Device, bench_directory

from hwgen.plan.registers import GLOBAL

__all__ = ["ProgramBench", "program"]

POLL_GAP = 8
TAIL_CYCLES = 64
STATUS_CYCLES = 64
STATUS = GLOBAL["status"].address


class ProgramBench:
    """State of a run; names and order of events are those of cpp/main.cpp."""

    def __init__(self, dut: Any):
        self.device = Device(dut)
        self.directory = bench_directory()
        settings = [line.split() for line in (self.directory / "bench.txt").read_text().splitlines()]
        value = {words[0]: words[1] for words in settings if words[0] != "probe"}
        self.watchdog, self.max_cycles = int(value["watchdog"]), int(value["max_cycles"])
        seed, stall = int(value["seed"]), float(value["stall"])
        self.image_coin, self.label_coin, self.result_coin = (Coin(seed * 3 + i, stall) for i in (1, 2, 3))
        self.probes = [
            (words[1], int(words[2]), self._out(words[1])) for words in settings if words[0] == "probe"
        ]
        self.results, self.reads, self.feeds, self.marks = map(
            self._out, ("results", "reads", "feeds", "marks")
        )
        lines = (self.directory / "program.txt").read_text().splitlines()
        self.ops = [
            (words[0], [int(word) for word in words[1:]]) for line in lines if (words := line.split())
        ]
        self.order, self.labels, self.words = map(self._load, ("order", "labels", "words"))
        beats, width = self._load("shape")
        self.images = self._load("images").reshape(-1, beats, width)
        self.image_queue: deque[int] = deque()
        self.label_queue: deque[int] = deque()
        self.beat = self.pc = self.step = self.poll_at = self.first_beat = self.last_progress = 0
        self.result_count = self.fed = self.rdata = 0
        self.recording = self.finished = self.polling = self.bus_done = False
        self.image_taken = self.label_taken = False
        self.status: int | None = None
        self.waiting_result: int | None = None
        self.start = time.monotonic()

    def _out(self, name: str) -> BinaryIO:
        return (self.directory / f"{name}.bin").open("wb")

    def _load(self, name: str) -> Any:
        return np.fromfile(self.directory / f"{name}.bin", dtype=np.uint32)

    async def run(self) -> None:
        """Until the program ends, nothing moves any more, or the cycles are used up."""
        device, tail, told = self.device, TAIL_CYCLES, self.start
        await device.reset()
        self.begin()
        self.sources()
        while True:
            await device.settle()
            if self.sample():
                self.last_progress = device.now
            if self.finished:
                tail -= 1
                if tail < 0:
                    return await self.finish("done")
            if not self.finished and device.now - self.last_progress > self.watchdog:
                return await self.finish("watchdog")
            if device.now >= self.max_cycles:
                return await self.finish("limit")
            await device.edge()
            if not self.finished:
                self.step_program()
            self.sources()
            if device.now % 256 == 0 and time.monotonic() - told > 1.0:
                told = time.monotonic()
                (self.directory / "progress.txt").write_text(f"{self.result_count} {device.now}\n")

    def sample(self) -> bool:
        """Looks at every stream in the settled cycle; True if anything moved."""
        device = self.device
        moved = bool(device.bits("channel_valid") & device.bits("channel_ready"))
        if device.driven("image__valid") and device.read("image__ready"):
            moved = self.image_taken = True
            if self.beat == 0:
                self.first_beat = device.now
            self.beat += 1
            if self.beat == self.images.shape[1]:
                self.feeds.write(struct.pack("<QQ", self.first_beat, device.now))
                self.beat = 0
                self.image_queue.popleft()
        if device.driven("label__valid") and device.read("label__ready"):
            moved = self.label_taken = True
            self.label_queue.popleft()
        moved |= self._sample_result()
        if self.recording:
            for name, words, out in self.probes:
                if device.moves(name):
                    out.write(device.read(f"{name}__payload").to_bytes(4 * words, "little"))
        self.bus_done = bool(device.driven("bus__valid") and device.read("bus__ready"))
        if self.bus_done and not device.driven("bus__write"):
            self.rdata = device.read("bus__rdata")
        return moved or (self.bus_done and not self.polling)

    def _sample_result(self) -> bool:
        device = self.device
        if not device.read("result__valid"):
            assert self.waiting_result is None, f"cycle {device.now}: result took back its valid"
            return False
        payload = device.read("result__payload")
        assert self.waiting_result in (None, payload), f"cycle {device.now}: result changed while it waited"
        if not device.driven("result__ready"):
            self.waiting_result = payload
            return False
        self.waiting_result = None
        self.result_count += 1
        self.results.write(struct.pack("<IIQ", payload & 0xFFFF, payload >> 16, device.now))
        return True

    def sources(self) -> None:
        """Drives image, label and result ports for the next cycle."""
        device = self.device
        if self.image_taken:
            device.drive("image__valid", 0)
        if self.label_taken:
            device.drive("label__valid", 0)
        self.image_taken = self.label_taken = False
        if not device.driven("image__valid") and self.image_queue and not self.image_coin.stall():
            beat = self.images[self.image_queue[0], self.beat]
            device.drive("image__payload", int.from_bytes(beat.tobytes(), "little"))
            device.drive("image__valid", 1)
        if not device.driven("label__valid") and self.label_queue and not self.label_coin.stall():
            device.drive("label__payload", self.label_queue[0])
            device.drive("label__valid", 1)
        device.drive("result__ready", int(not self.result_coin.stall()))

    def access(self, address: int, write: bool, data: int) -> None:
        """Puts a register access on the bus."""
        for name, value in (("valid", 1), ("write", int(write)), ("addr", address), ("wdata", data)):
            self.device.drive(f"bus__{name}", value)

    def begin(self) -> None:
        """Starts what does not wait at once, and the bus access of what does, until one must wait."""
        while self.pc < len(self.ops):
            name, a = self.ops[self.pc]
            if name == "feed":
                samples = [int(i) for i in self.order[a[0] : a[0] + a[1]]]
                self.image_queue.extend(samples)
                if a[2]:
                    self.label_queue.extend(int(self.labels[i]) for i in samples)
                self.fed += len(samples)
            elif name == "record":
                self.recording = bool(a[0])
            elif name == "mark":
                nanoseconds = int((time.monotonic() - self.start) * 1e9)
                self.marks.write(struct.pack("<QQ", self.device.now, nanoseconds))
            elif name == "results":
                if self.result_count < a[0]:
                    return None
            elif name == "write":
                return self.access(a[0], True, a[1])
            elif name == "load":
                if self.step < a[2]:
                    return self.access(a[0], True, int(self.words[a[1] + self.step]))
            elif name == "read":
                if self.step < a[1]:
                    return self.access(a[0] + self.step * a[2], False, 0)
            elif name == "status":
                self.polling = True
                if self.device.now >= self.poll_at:
                    self.access(STATUS, False, 0)
                return None
            else:
                raise ValueError(f"unknown operation {name}")
            self.pc += 1
            self.step = 0
        self.finished = True
        return None

    def step_program(self) -> None:
        """Takes the answer of a register access, if there is one, and goes on."""
        if self.bus_done:
            self.bus_done = False
            self.device.drive("bus__valid", 0)
            name, a = self.ops[self.pc]
            if name == "write":
                self.pc += 1
            elif name == "load":
                self.step += 1
            elif name == "read":
                self.reads.write(struct.pack("<I", self.rdata))
                self.step += 1
            elif (self.rdata & a[0]) == a[1]:
                self.polling = False
                self.last_progress = self.device.now
                self.pc += 1
            else:
                self.poll_at = self.device.now + POLL_GAP
        if not self.device.driven("bus__valid"):
            self.begin()

    async def finish(self, how: str) -> None:
        """Writes outcome.txt; after a hang asks for the status register first."""
        device, cycles = self.device, self.device.now
        valid, ready = device.bits("channel_valid"), device.bits("channel_ready")
        waits = bool(device.driven("bus__valid")) and not self.polling
        if not self.finished and not waits:
            await self._ask_status()
            waits = self.status is None
        for out in (self.results, self.reads, self.feeds, self.marks, *(probe[2] for probe in self.probes)):
            out.close()
        lines = [
            f"end {how}",
            f"cycles {cycles}",
            f"seconds {time.monotonic() - self.start:.6f}",
            f"op {self.pc}",
        ]
        lines += [f"fed {self.fed}", f"unfed {len(self.image_queue)}", f"results {self.result_count}"]
        lines += [f"bus_waits {int(waits)}", f"valid {_words(valid)}", f"ready {_words(ready)}"]
        if self.status is not None:
            lines.append(f"status {self.status}")
        (self.directory / "outcome.txt").write_text("\n".join(lines) + "\n")

    async def _ask_status(self) -> None:
        self.access(STATUS, False, 0)
        await self.device.settle()
        for _ in range(STATUS_CYCLES):
            await self.device.edge()
            await self.device.settle()
            if self.device.read("bus__ready"):
                self.status = self.device.read("bus__rdata")
                return


def _words(bits: int) -> str:
    """A number as 32-bit words, the lowest first."""
    return " ".join(str(bits >> shift & 0xFFFFFFFF) for shift in range(0, max(bits.bit_length(), 1), 32))


@cocotb.test()
async def program(dut: Any) -> None:
    """Runs the program of the bench's directory."""
    await ProgramBench(dut).run()
