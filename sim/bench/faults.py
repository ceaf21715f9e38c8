"""What a device does with bad frames, bad labels, a slow host and odd commands; see hwgen.sim.faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cocotb
from hwgen.sim.bench.device import Device, bench_directory

from hwgen.plan.registers import (
    CONTROL_TRAIN,
    DEVICE_ID,
    GLOBAL,
    STATUS_BAD_FRAME,
    STATUS_BAD_LABEL,
    STATUS_IDLE,
)  # fmt: skip

__all__ = [
    "FaultBench", "bad_label", "commands_queue", "long_frame", "no_such_board", "one_reply_a_read",
    "pointer_steps_through_memory", "read_only_registers", "recovers_by_reset", "result_waits", "short_frame",
    "unknown_registers",
]  # fmt: skip

QUIET_CYCLES = 200
REPLY_PATIENCE = 300
MANY_COMMANDS = 100


class FaultBench(Device):
    """A device in the middle of anything a host may do; every wait is bounded."""

    def __init__(self, dut: Any):
        super().__init__(dut)
        setting = json.loads((bench_directory() / "faults.json").read_text())
        self.image: list[int] = setting["image"]
        self.last: int = 1 << setting["last"]
        self.classes: int = setting["classes"]
        self.patience: int = setting["patience"]
        self.depths: list[int] = setting["depths"]
        self.memories: list[tuple[int, int]] = setting["memories"]

    async def until(self, done: Callable[[], bool], limit: int, what: str) -> None:
        """Runs cycles until ``done`` in a settled one, whose edge still happens. Fails after ``limit``."""
        for _ in range(limit):
            await self.settle()
            if done():
                return await self.edge()
            await self.edge()
        raise AssertionError(f"cycle {self.now}: {what} did not happen within {limit} cycles")

    async def command(self, name: str | int, value: int | None = None, board: int = 0) -> None:
        """Sends one command for a register (by name or address): writes ``value``, or reads if it is None."""
        address = GLOBAL[name].address if isinstance(name, str) else name
        write = int(value is not None)
        self.drive("command__payload", write << 56 | board << 48 | address << 32 | (value or 0))
        self.drive("command__valid", 1)
        taken = lambda: bool(self.read("command__ready"))  # noqa: E731
        await self.until(taken, REPLY_PATIENCE, f"taking a command for register {name}")
        self.drive("command__valid", 0)

    async def reply(self, what: str | int) -> int:
        """Takes one reply."""
        self.drive("reply__ready", 1)
        data = 0

        def answered() -> bool:
            nonlocal data
            if not self.read("reply__valid"):
                return False
            data = self.read("reply__payload")
            return True

        await self.until(answered, REPLY_PATIENCE, f"an answer of register {what}")
        self.drive("reply__ready", 0)
        return data

    async def bus(self, name: str | int, value: int | None = None, board: int = 0) -> int:
        """One command: writes ``value``, or returns what it reads."""
        await self.command(name, value, board)
        return await self.reply(name) if value is None else 0

    async def clear(self) -> None:
        """All weights and biases 0: they have no value before a host loads them."""
        for space, count in self.memories:
            await self.bus("space", space)
            await self.bus("pointer", 0)
            for _ in range(count):
                await self.bus("data", 0)
        await self.bus("id")

    async def send(self, beats: list[int]) -> None:
        """Beats of an image, ``last`` bits included."""
        for beat in beats:
            self.drive("image__payload", beat)
            self.drive("image__valid", 1)
            await self.until(lambda: bool(self.read("image__ready")), self.patience, "taking an image's beat")
        self.drive("image__valid", 0)

    def frame(self, last: int = -1) -> list[int]:
        """The bench's image with its last bit in beat number ``last``."""
        beats = list(self.image)
        beats[last] |= self.last
        return beats

    async def label(self, label: int) -> None:
        """One label."""
        self.drive("label__payload", label)
        self.drive("label__valid", 1)
        await self.until(lambda: bool(self.read("label__ready")), self.patience, "taking a label")
        self.drive("label__valid", 0)

    async def status_shows(self, bit: int, limit: int) -> None:
        """Polls the status register until ``bit`` is set."""
        for _ in range(limit):
            if await self.bus("status") & bit:
                return
        raise AssertionError(f"cycle {self.now}: status never showed {bit}")

    async def stays_low(self, names: tuple[str, ...]) -> None:
        """None of these outputs rises for some time."""
        for _ in range(QUIET_CYCLES):
            await self.settle()
            for name in names:
                assert not self.read(name), f"cycle {self.now}: {name} rises"
            await self.edge()


async def _started(dut: Any) -> FaultBench:
    bench = FaultBench(dut)
    await bench.reset()
    return bench


async def _bad_frame(bench: FaultBench, beats: list[int]) -> None:
    """The frame is reported, nothing more is taken, and the bus goes on."""
    assert not await bench.bus("status") & STATUS_BAD_FRAME
    await bench.send(beats)
    await bench.status_shows(STATUS_BAD_FRAME, 10)
    bench.drive("image__valid", 1)
    await bench.stays_low(("image__ready", "result__valid"))
    assert await bench.bus("status") & STATUS_BAD_FRAME, "the status is sticky"
    assert await bench.bus("id") == DEVICE_ID


@cocotb.test()
async def short_frame(dut: Any) -> None:
    """``last`` one beat too early stops the device (an image of one beat has no such frame)."""
    bench = await _started(dut)
    if len(bench.image) > 1:
        await _bad_frame(bench, bench.frame(-2)[:-1])


@cocotb.test()
async def long_frame(dut: Any) -> None:
    """No ``last`` in an image's final beat stops the device."""
    bench = await _started(dut)
    await _bad_frame(bench, list(bench.image))


@cocotb.test()
async def bad_label(dut: Any) -> None:
    """A label that is no class is reported, has no result, and is the last one taken."""
    bench = await _started(dut)
    bench.drive("result__ready", 1)
    await bench.send(bench.frame())
    await bench.label(bench.classes)
    await bench.status_shows(STATUS_BAD_LABEL, bench.patience)
    bench.drive("label__payload", 0)
    bench.drive("label__valid", 1)
    await bench.stays_low(("label__ready", "result__valid"))
    assert not await bench.bus("status") & STATUS_IDLE, "the sample is still inside"
    assert await bench.bus("samples") == 0


@cocotb.test()
async def recovers_by_reset(dut: Any) -> None:
    """After a bad frame and a reset the device works: a good image and label give a result."""
    bench = await _started(dut)
    await bench.send(list(bench.image))
    await bench.status_shows(STATUS_BAD_FRAME, 10)
    await bench.reset()
    assert not await bench.bus("status") & STATUS_BAD_FRAME
    bench.drive("result__ready", 1)
    await bench.send(bench.frame())
    await bench.label(0)
    await bench.until(lambda: bench.moves("result"), bench.patience, "a result")
    assert await bench.bus("samples") == 1


@cocotb.test()
async def result_waits(dut: Any) -> None:
    """A result stays as it is until it is taken, for as long as the host likes; then it is counted once."""
    bench = await _started(dut)
    await bench.clear()
    await bench.send(bench.frame())
    await bench.label(bench.classes - 1)
    await bench.until(lambda: bool(bench.read("result__valid")), bench.patience, "a result")
    await bench.settle()
    payload = bench.read("result__payload")
    assert payload & 0xFFFF < bench.classes
    for _ in range(QUIET_CYCLES):
        await bench.edge()
        await bench.settle()
        assert bench.read("result__valid"), "a waiting result was taken back"
        assert bench.read("result__payload") == payload, "a waiting result changed"
    await bench.edge()
    assert await bench.bus("samples") == 0
    bench.drive("result__ready", 1)
    await bench.cycle()
    await bench.stays_low(("result__valid",))
    assert await bench.bus("samples") == 1


@cocotb.test()
async def one_reply_a_read(dut: Any) -> None:
    """A read has one reply, a write none, and nothing comes without a command."""
    bench = await _started(dut)
    bench.drive("reply__ready", 1)
    await bench.stays_low(("reply__valid",))
    assert await bench.bus("id") == DEVICE_ID
    await bench.stays_low(("reply__valid",))
    await bench.bus("control", 0)
    await bench.bus("control", CONTROL_TRAIN)
    await bench.stays_low(("reply__valid",))
    assert await bench.bus("control") == CONTROL_TRAIN


@cocotb.test()
async def commands_queue(dut: Any) -> None:
    """A host that takes no replies stops the commands; then all replies come, in order and each once."""
    bench = await _started(dut)
    first = await bench.bus("build")
    bench.drive("reply__ready", 0)
    wanted: list[int] = []
    for name, value in (("id", DEVICE_ID), ("build", first)) * MANY_COMMANDS:
        await bench.settle()
        if wanted and not bench.read("command__ready"):
            for _ in range(REPLY_PATIENCE):
                await bench.edge()
                await bench.settle()
            if not bench.read("command__ready"):
                break
        wanted.append(value)
        await bench.edge()
        await bench.command(name)
    assert len(wanted) < 2 * MANY_COMMANDS, "commands pile up without end"
    bench.drive("command__payload", GLOBAL["id"].address << 32)
    bench.drive("command__valid", 1)
    await bench.stays_low(("command__ready",))
    bench.drive("command__valid", 0)
    assert [await bench.reply("id") for _ in wanted] == wanted
    bench.drive("reply__ready", 1)
    await bench.stays_low(("reply__valid",))


@cocotb.test()
async def no_such_board(dut: Any) -> None:
    """A command for a board that is not there changes nothing; a read of it is answered with 0."""
    bench = await _started(dut)
    before = await bench.bus("control")
    for board in (1, 128, 255):
        await bench.bus("control", ~before & 3, board)
        assert await bench.bus("id", board=board) == 0, f"board {board}"
    assert await bench.bus("control") == before


@cocotb.test()
async def unknown_registers(dut: Any) -> None:
    """An address without a register answers 0, and a write to it changes nothing."""
    bench = await _started(dut)
    free = max(register.address for register in GLOBAL.values()) + 1
    for address in (free, 0xFF, 0xFFFF):
        assert await bench.bus(address) == 0, f"address {address:#x}"
        await bench.bus(address, 0xFFFFFFFF)
        assert await bench.bus(address) == 0, f"address {address:#x} after a write"
    assert await bench.bus("id") == DEVICE_ID


@cocotb.test()
async def read_only_registers(dut: Any) -> None:
    """A write to a register that is only read is answered and ignored."""
    bench = await _started(dut)
    for name, register in GLOBAL.items():
        if register.access == "r" and not name.startswith("cycles"):
            before = await bench.bus(name)
            await bench.bus(name, ~before & 0xFFFFFFFF)
            assert await bench.bus(name) == before, name


@cocotb.test()
async def pointer_steps_through_memory(dut: Any) -> None:
    """Elements written one after the other, over the end of a PE, are read back in the same order."""
    bench = await _started(dut)
    for stage, depth in enumerate(bench.depths):
        values = [(7 * i + stage + 1) & 0x3F for i in range(depth + 1)]
        await bench.bus("space", stage * 16)
        await bench.bus("pointer", 0)
        for value in values:
            await bench.bus("data", value)
        await bench.bus("pointer", 0)
        found = [await bench.bus("data") for _ in values]
        assert found == values, f"stage {stage}"
