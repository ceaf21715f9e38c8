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
from hwgen.sim.program import BOARD_STRIDE

from hwgen.plan.registers import GLOBAL

__all__ = ["ProgramBench", "program"]

POLL_GAP = 8
TAIL_CYCLES = 64
STATUS_CYCLES = 1024
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
        coins = [Coin(seed, stream, stall) for stream in range(5)]
        self.image_coin, self.label_coin, self.result_coin, self.command_coin, self.reply_coin = coins
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
        self.beat = self.pc = self.sent = self.answered = self.poll_at = self.first_beat = 0
        self.last_progress = self.result_count = self.fed = self.reply = 0
        self.recording = self.finished = self.polling = False
        self.image_taken = self.label_taken = self.command_taken = self.replied = False
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
        self.step_program()
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
        self.command_taken = bool(device.driven("command__valid") and device.read("command__ready"))
        self.replied = bool(device.read("reply__valid") and device.driven("reply__ready"))
        if self.replied:
            self.reply = device.read("reply__payload")
        return moved or ((self.command_taken or self.replied) and not self.polling)

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
        device.drive("reply__ready", int(not self.reply_coin.stall()))

    def offer(self, address: int, write: bool, data: int) -> None:
        """Puts a command on the port."""
        self.device.drive("command__payload", int(write) << 56 | address << 32 | data)
        self.device.drive("command__valid", 1)

    def advance(self) -> bool:
        """Does what needs no waiting, or offers the current operation's next command; False if it must wait."""
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
            return self.result_count >= a[0]
        elif name == "status":
            self.polling = True
            if self.sent == 0 and self.device.now >= self.poll_at and not self.command_coin.stall():
                self.offer(a[2] * BOARD_STRIDE + STATUS, False, 0)
            return False
        else:
            return self._accesses(name, a)
        return True

    def _accesses(self, name: str, a: list[int]) -> bool:
        count = {"write": 1, "load": a[-1], "read": a[1]}[name]
        if self.sent == count:
            return name != "read" or self.answered == count
        if self.command_coin.stall():
            return False
        if name == "read":
            self.offer(a[0] + self.sent * a[2], False, 0)
        else:
            self.offer(a[0], True, a[1] if name == "write" else int(self.words[a[1] + self.sent]))
        return False

    def step_program(self) -> None:
        """Notes what became of commands, and goes on."""
        if self.command_taken:
            self.device.drive("command__valid", 0)
            self.sent += 1
        if self.replied:
            self.answered += 1
            if not self.polling:
                self.reads.write(struct.pack("<I", self.reply))
            elif (self.reply & self.ops[self.pc][1][0]) == self.ops[self.pc][1][1]:
                self.polling = False
                self.last_progress = self.device.now
                self._next()
            else:
                self.poll_at = self.device.now + POLL_GAP
                self.sent = self.answered = 0
        while not self.device.driven("command__valid") and self.pc < len(self.ops) and self.advance():
            self._next()
        self.finished = self.pc == len(self.ops)

    def _next(self) -> None:
        self.pc += 1
        self.sent = self.answered = 0

    async def finish(self, how: str) -> None:
        """Writes outcome.txt; after a hang asks for the status register first."""
        device, cycles = self.device, self.device.now
        valid, ready = device.bits("channel_valid"), device.bits("channel_ready")
        reading = self.pc < len(self.ops) and self.ops[self.pc][0] == "read"
        waits = bool(device.driven("command__valid")) or (reading and self.sent > self.answered)
        waits = waits and not self.polling
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
        device = self.device
        device.drive("reply__ready", 1)
        if not device.driven("command__valid") and not (self.polling and self.sent):
            self.offer(STATUS, False, 0)
        for _ in range(STATUS_CYCLES):
            await device.settle()
            if device.read("reply__valid"):
                self.status = device.read("reply__payload")
                return
            taken = device.driven("command__valid") and device.read("command__ready")
            await device.edge()
            if taken:
                device.drive("command__valid", 0)


def _words(bits: int) -> str:
    """A number as 32-bit words, the lowest first."""
    return " ".join(str(bits >> shift & 0xFFFFFFFF) for shift in range(0, max(bits.bit_length(), 1), 32))


@cocotb.test()
async def program(dut: Any) -> None:
    """Runs the program of the bench's directory."""
    await ProgramBench(dut).run()
