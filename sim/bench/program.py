"""The C++ driver's twin: runs a program cycle for cycle the same, and checks the manners of streams out."""

from __future__ import annotations

import struct
import time
from typing import Any, BinaryIO

import cocotb
import numpy as np
from cocotb.triggers import Timer
from hwgen.sim.bench.clocks import Clocks
from hwgen.sim.bench.coin import Coin
from hwgen.sim.bench.device import Device, bench_directory
from hwgen.sim.bench.streams import COMMAND, FURTHER, IMAGE, LABEL, REPLY, RESULT, Sink, Source
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
        self.device = device = Device(dut)
        self.directory = bench_directory()
        settings = [line.split() for line in (self.directory / "bench.txt").read_text().splitlines()]
        value = {words[0]: words[1] for words in settings if len(words) == 2}
        self.watchdog, self.max_cycles = int(value["watchdog"]), int(value["max_cycles"])
        seed, stall = int(value["seed"]), float(value["stall"])
        named = {
            kind: [(words[1], int(words[2])) for words in settings if words[0] == kind]
            for kind in ("probe", "source", "sink", "input", "output")
        }
        for name, _ in named["input"]:
            device.drive(name, 0)
        self.clocks = Clocks(device, self.directory)
        self.probes = [(name, words, self._out(name)) for name, words in named["probe"]]
        self.boards = {name: self.clocks.of_board(board) for name, board in self._boards()}
        draws = iter(range(FURTHER, 256))
        draw = {"image": IMAGE, "label": LABEL}
        self.sources = [
            Source(
                device,
                name,
                self.directory,
                words,
                Coin(seed, draw[name] if name in draw else next(draws), stall),
            )
            for name, words in named["source"]
        ]
        self.sinks = [
            Sink(device, name, self._out(name), words, Coin(seed, next(draws), stall))
            for name, words in named["sink"]
        ]
        self.outputs = named["output"]
        self.results, self.reads, self.feeds, self.marks = map(
            self._out, ("results", "reads", "feeds", "marks")
        )
        self.result = (
            Sink(device, "result", self.results, 2, Coin(seed, RESULT, stall))
            if value["result"] == "1"
            else None
        )
        self.command_coin, self.reply_coin = Coin(seed, COMMAND, stall), Coin(seed, REPLY, stall)
        lines = (self.directory / "program.txt").read_text().splitlines()
        self.ops = [
            (words[0], [int(word) for word in words[1:]]) for line in lines if (words := line.split())
        ]
        self.order, self.words = map(self._load, ("order", "words"))
        self.pc = self.sent = self.answered = self.poll_at = self.first_beat = self.last_progress = 0
        self.fed = self.reply = self.asking = self.cycles = 0
        self.recording = self.finished = self.polling = self.command_taken = self.replied = self.waits = False
        self.tail = TAIL_CYCLES
        self.end = ""
        self.channels = (0, 0)
        self.status: int | None = None
        self.start = self.told = time.monotonic()

    def _boards(self) -> list[tuple[str, int]]:
        from hwgen.sim.ports import board_of

        return [(name, board_of(name)) for name, _, _ in self.probes]

    def _out(self, name: str) -> BinaryIO:
        return (self.directory / f"{name}.bin").open("wb")

    def _load(self, name: str) -> Any:
        return np.fromfile(self.directory / f"{name}.bin", dtype=np.uint32)

    @property
    def result_count(self) -> int:
        """Results since reset."""
        return self.result.count if self.result is not None else 0

    async def run(self) -> None:
        """Until the program ends, nothing moves any more, or the cycles are used up."""
        device, clocks = self.device, self.clocks
        for source in self.sources:
            device.drive(f"{source.name}__valid", 0)
            device.drive(f"{source.name}__payload", 0)
        for name in (*(sink.name for sink in self.sinks), *(["result"] if self.result else []), "reply"):
            device.drive(f"{name}__ready", 0)
        device.drive("command__valid", 0)
        device.drive("command__payload", 0)
        while True:
            now, rising = clocks.time, clocks.rising
            if self.recording and rising:
                self._record(rising)
            if rising & 1 and device.now >= clocks.host_start and self.look():
                break
            clocks.advance()
            await Timer(clocks.time - now, unit="ps")
            if not rising & 1:
                continue
            device.now += 1
            if device.now >= clocks.host_start:
                self.act()
            if device.now % 256 == 0 and time.monotonic() - self.told > 1.0:
                self.told = time.monotonic()
                (self.directory / "progress.txt").write_text(f"{self.result_count} {device.now}\n")
        self.finish()

    def _record(self, rising: int) -> None:
        for name, words, out in self.probes:
            if rising >> self.boards[name] & 1 and self.device.moves(name):
                out.write(self.device.read(f"{name}__payload").to_bytes(4 * words, "little"))

    def look(self) -> bool:
        """Before an edge of the host's clock, all settled: what happens in it. True if it is the last one."""
        device = self.device
        if self.asking:
            self.command_taken = bool(device.driven("command__valid") and device.read("command__ready"))
            self.asking -= 1
            if device.read("reply__valid"):
                self.status = device.read("reply__payload")
                return True
            return not self.asking
        if self.sample():
            self.last_progress = device.now
        if self.finished:
            self.tail -= 1
        if self.tail < 0:
            self._note("done")
        elif not self.finished and device.now - self.last_progress > self.watchdog:
            self._note("watchdog")
        elif device.now >= self.max_cycles:
            self._note("limit")
        return bool(self.end) and not self.asking

    def act(self) -> None:
        """After an edge of the host's clock: drives its inputs."""
        if not self.asking:
            if not self.finished:
                self.step_program()
            return self.drive()
        device = self.device
        device.drive("reply__ready", 1)
        if self.command_taken:
            device.drive("command__valid", 0)
        asked = self.polling and (self.sent or self.command_taken or device.driven("command__valid"))
        if not asked and self.asking == STATUS_CYCLES:
            self.offer(STATUS, False, 0)
        return None

    def sample(self) -> bool:
        """Looks at every stream in the settled cycle; True if anything moved."""
        device = self.device
        moved = bool(device.bits("channel_valid") & device.bits("channel_ready"))
        for number, source in enumerate(self.sources):
            if not source.moves():
                continue
            moved = True
            if number == 0 and source.beat == 0:
                self.first_beat = device.now
            if source.step() and number == 0:
                self.feeds.write(struct.pack("<QQ", self.first_beat, device.now))
        for sink in self.sinks:
            moved |= sink.record()
        if self.result is not None and (payload := self.result.take()) is not None:
            moved = True
            self.results.write(struct.pack("<IIQ", payload & 0xFFFF, payload >> 16, device.now))
        self.command_taken = bool(device.driven("command__valid") and device.read("command__ready"))
        self.replied = bool(device.read("reply__valid") and device.driven("reply__ready"))
        if self.replied:
            self.reply = device.read("reply__payload")
        return moved or ((self.command_taken or self.replied) and not self.polling)

    def drive(self) -> None:
        """Drives the streams' ports for the next cycle."""
        for source in self.sources:
            source.drive()
        if self.result is not None:
            self.result.drive()
        for sink in self.sinks:
            sink.drive()
        self.device.drive("reply__ready", int(not self.reply_coin.stall()))

    def offer(self, address: int, write: bool, data: int) -> None:
        """Puts a command on the port."""
        self.device.drive("command__payload", int(write) << 56 | address << 32 | data)
        self.device.drive("command__valid", 1)

    def _feed(self, first: int, count: int, train: int) -> None:
        for number in self.order[first : first + count]:
            for source in self.sources:
                if train or source.inference:
                    source.feed(int(number))
        self.fed += count

    def _accesses(self, name: str, a: list[int]) -> bool:
        """Offers the current operation's next command; True if all are taken and answered."""
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

    def advance(self) -> bool:
        """Does what needs no waiting, or offers the current operation's next command; False if it must wait."""
        name, a = self.ops[self.pc]
        if name == "feed":
            self._feed(*a)
        elif name == "record":
            self.recording = bool(a[0])
        elif name == "mark":
            nanoseconds = int((time.monotonic() - self.start) * 1e9)
            self.marks.write(struct.pack("<QQ", self.device.now, nanoseconds))
        elif name == "results":
            return self.result_count >= a[0]
        elif name == "received":
            return self.sinks[a[0]].count >= a[1]
        elif name == "status":
            self.polling = True
            if self.sent == 0 and self.device.now >= self.poll_at and not self.command_coin.stall():
                self.offer(a[2] * BOARD_STRIDE + STATUS, False, 0)
            return False
        else:
            return self._accesses(name, a)
        return True

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

    def _note(self, end: str) -> None:
        """How the run ended, as it is in this cycle. A hang with working commands then asks for the status."""
        self.end, self.cycles = end, self.device.now
        self.channels = (self.device.bits("channel_valid"), self.device.bits("channel_ready"))
        reading = self.pc < len(self.ops) and self.ops[self.pc][0] == "read"
        waits = bool(self.device.driven("command__valid")) or (reading and self.sent > self.answered)
        self.waits = waits and not self.polling
        if not self.finished and not self.waits:
            if self.replied:
                self.status = self.reply
            else:
                self.asking = STATUS_CYCLES

    def finish(self) -> None:
        """Writes outcome.txt and outputs.txt."""
        if not self.finished and not self.waits:
            self.waits = self.status is None
        files = [*(probe[2] for probe in self.probes), *(sink.file for sink in self.sinks)]
        for out in (self.results, self.reads, self.feeds, self.marks, *files):
            out.close()
        seconds = time.monotonic() - self.start
        unfed = len(self.sources[0].queue) if self.sources else 0
        lines = [f"end {self.end}", f"cycles {self.cycles}", f"seconds {seconds:.6f}", f"op {self.pc}"]
        lines += [f"fed {self.fed}", f"unfed {unfed}", f"results {self.result_count}"]
        lines.append(f"bus_waits {int(self.waits)}")
        lines += [
            f"{name} {_words(bits)}" for name, bits in zip(("valid", "ready"), self.channels, strict=True)
        ]
        if self.status is not None:
            lines.append(f"status {self.status}")
        (self.directory / "outcome.txt").write_text("\n".join(lines) + "\n")
        outputs = [f"{name} {_words(self.device.bits(name), width)}\n" for name, width in self.outputs]
        (self.directory / "outputs.txt").write_text("".join(outputs))


def _words(bits: int, width: int = 1) -> str:
    """A number of at least ``width`` bits as 32-bit words, the lowest first."""
    return " ".join(str(bits >> shift & 0xFFFFFFFF) for shift in range(0, max(bits.bit_length(), width), 32))


@cocotb.test()
async def program(dut: Any) -> None:
    """Runs the program of the bench's directory."""
    await ProgramBench(dut).run()
