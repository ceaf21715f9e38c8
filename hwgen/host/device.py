"""A device that hwgen built, as a Python object: weights, settings, training, counters, checkpoints."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import HostError
from .layout import image_messages, label_message, quantise, read_message, signed, write_message
from .placement import bias_index, weight_index
from .protocol import REPLY, RESEND_SECONDS, RESULT, Link
from .transport import Transport

__all__ = ["Device", "Results", "read_description"]

Ints = NDArray[np.int64]
TRAIN = 1
IDLE, BAD_FRAME, BAD_LABEL, BAD_MEMORY = 1, 2, 4, 16
LOSS_UNIT = 2.0**-16
READ_AT_ONCE = 256
WRITE_AT_ONCE = 256


@dataclass(frozen=True)
class Results:
    """Of every sample in order: predicted class, and loss in units of 2**-16 (natural logarithm; 0 in inference)."""

    predictions: Ints
    losses: Ints

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean()) * LOSS_UNIT if len(self.losses) else 0.0


def read_description(path: Path) -> dict[str, Any]:
    """The device.json that ``hwgen build`` wrote."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise HostError(f"{path}: cannot be read ({error}); take the file of the build") from None
    if not isinstance(found, dict) or not {"build", "registers", "parts"} <= found.keys():
        raise HostError(f"{path}: no description of a device; take the file of the build")
    return found


class Device:
    """A device behind any transport; ``description`` is its build's device.json.

    Opening checks that bitstreams are of this build. It resets a device that is alone unless ``restart`` is False. The
    boards of a chain have to be reset together, which the host cannot do: there it checks that they wait for work.
    """

    def __init__(
        self,
        transport: Transport,
        description: Mapping[str, Any],
        *,
        restart: bool = True,
        resend: float = RESEND_SECONDS,
        patience: float = 5.0,
        stall: float = 60.0,
    ):
        self.description, self.transport = description, transport
        self.link = Link(transport, resend=resend, patience=patience, stall=stall)
        self._registers = description["registers"]
        self._results: list[tuple[int, int]] = []
        self._mode: int | None = None
        self.updates, self._boards = 0, max(1, len(description["boards"]))
        restart = restart and self._boards == 1
        self.link.open(restart)
        self._check(patience)
        if not restart:
            self.updates = max(one["updates"] for one in self.counters()["stages"])

    def close(self) -> None:
        """Gives the port back."""
        self.transport.close()

    def _check(self, seconds: float) -> None:
        for board in range(self._boards):
            if board:
                self._joined(board, seconds)
            for name in ("id", "build"):
                found, wanted = self.read(name, board), self.description[name]
                if found != wanted:
                    raise HostError(
                        f"{self.transport.name}: board {board} shows {name} 0x{found:08x}, this build is "
                        f"0x{wanted:08x}; load the bitstream of this build"
                    )
        if self._boards > 1:
            self.wait_idle(seconds)

    def _joined(self, board: int, seconds: float) -> None:
        """Waits until the link to a board is up at the board before it."""
        links = self._registers["link"]
        address = links["base"] + links["stride"] + links["registers"].index("state")
        deadline = time.monotonic() + seconds
        while (state := links["states"][self.read(address, board - 1)]) != "up":
            if state == "refused" or time.monotonic() > deadline:
                advice = "load the bitstreams of this build, each on its board, and look for swapped cables"
                if state != "refused":
                    advice = (
                        f"check the cable and board {board}; if one board alone was reset, reset all together"
                    )
                raise HostError(
                    f"{self.transport.name}: the link from board {board - 1} to {board} is {state}; {advice}"
                )

    @property
    def _advice(self) -> str:
        if self._boards == 1:
            return "open the device again, and resume"
        return "reset all boards of the chain together, and resume"

    # Registers

    def _address(self, register: str | int) -> int:
        if isinstance(register, int):
            return register
        return int(self._registers["global"][register]["address"])

    def read_many(self, register: str | int, count: int, board: int = 0) -> Ints:
        """``count`` reads of a register, one after the other."""
        parts = []
        for start in range(0, count, READ_AT_ONCE):
            size = min(READ_AT_ONCE, count - start)
            self.link.send(read_message(self._address(register), size, board))
            parts += [self._reply() for _ in range(size)]
        return np.asarray(parts, dtype=np.int64)

    def read(self, register: str | int, board: int = 0) -> int:
        """A register."""
        return int(self.read_many(register, 1, board)[0])

    def write(self, register: str | int, values: int | Ints, board: int = 0) -> None:
        """Writes one or more values to a register, one after the other."""
        flat = np.asarray(values, dtype=np.int64).reshape(-1)
        for start in range(0, len(flat), WRITE_AT_ONCE):
            part = flat[start : start + WRITE_AT_ONCE]
            self.link.send(write_message(self._address(register), part, board))

    def _reply(self) -> int:
        """The next reply; results that come before it are kept."""
        while True:
            kind = self.link.receive(1)[0]
            if kind == REPLY:
                return int.from_bytes(self.link.receive(4), "little")
            self._result(kind)

    def _result(self, kind: int) -> None:
        if kind != RESULT:
            raise HostError(
                f"{self.transport.name}: message of unknown kind {kind}; the bitstream is of another hwgen"
            )
        self._results.append(struct.unpack("<HI", self.link.receive(6)))

    def counters(self) -> dict[str, Any]:
        """What the device has counted since reset: ``samples`` results given; ``boards`` with the cycles of each;
        ``stages`` with name, board and the counters of registers.md (those of passes in cycles, saturations in values,
        high-water marks); ``links`` with board, side, state and the counters of each end.

        Of a board all at one instant, but for ``samples``.
        """
        stages, links = self._registers["stage"], self._registers["link"]
        found: dict[str, Any] = {"samples": self.read("samples"), "boards": [], "stages": [], "links": []}
        count = self._boards
        for board in range(count):
            self.write("snapshot", 0, board)
            cycles = self.read("cycles_low", board) | self.read("cycles_high", board) << 32
            found["boards"].append({"board": board, "cycles": cycles})
            for part in self.description["parts"]:
                if part["board"] == board:
                    block = self._block(stages, part["number"], stages["counters"], board)
                    found["stages"].append({"name": part["name"], "board": board, **block})
            for side, there in (("up", board > 0), ("down", board < count - 1)):
                if there:
                    block = self._block(links, 0 if side == "up" else 1, links["registers"], board)
                    state = links["states"][block.pop("state")]
                    found["links"].append({"board": board, "side": side, "state": state, **block})
        return found

    def _block(
        self, block: Mapping[str, Any], index: int, names: Sequence[str], board: int
    ) -> dict[str, int]:
        """Registers of block ``index`` by name."""
        base = block["base"] + block["stride"] * index
        for k in range(len(names)):
            self.link.send(read_message(base + k, 1, board))
        return {name: self._reply() for name in names}

    def set_everywhere(self, register: str, value: int) -> None:
        """Writes a register of all boards, and waits until all have it."""
        boards = range(self._boards)
        for board in boards:
            self.write(register, value, board)
        for board in boards:
            self.read("id", board)

    def wait_idle(self, seconds: float = 60.0) -> None:
        """Waits until no sample and no update is under way on any board."""
        deadline = time.monotonic() + seconds
        for board in range(self._boards):
            while not (status := self.read("status", board)) & IDLE:
                self._complain(status, board)
                if time.monotonic() > deadline:
                    raise HostError(
                        f"{self.transport.name}: board {board} is not idle after {seconds:g} s, as after a program "
                        f"that was stopped; {self._advice}"
                    )
            self._complain(status, board)

    def _complain(self, status: int, board: int) -> None:
        for bit, text in (
            (BAD_FRAME, "an image had a wrong number of beats"),
            (BAD_LABEL, "a label was no class"),
            (BAD_MEMORY, "external memory answered with an error"),
        ):
            if status & bit:
                raise HostError(f"{self.transport.name}: board {board}: {text}; {self._advice}")

    # Settings

    @property
    def rate(self) -> float:
        """The learning rate that the device has, as its format holds it."""
        rounded: float = (
            self.read("rate") * self.read("batch") * 2.0 ** -self.description["update"]["lr"]["frac"]
        )
        return rounded

    def set_rate(self, rate: float) -> int:
        """Sets the learning rate; what the register holds (rate / batch in format lr, rounded)."""
        update = self.description["update"]
        lr, batch = update["lr"], self.read("batch")
        value: int = round(rate / batch * 2.0 ** lr["frac"])
        if not 0 < value < 1 << lr["width"] - 1:
            raise HostError(
                f"learning rate {rate:g} at {batch} samples a batch is {value} units of 2^-{lr['frac']}; "
                f"1 to {(1 << lr['width'] - 1) - 1} can be set"
            )
        self.set_everywhere("rate", value)
        return value

    def set_batch(self, batch: int) -> None:
        """Sets the samples an update. The register of the rate holds rate / batch: set the rate after it."""
        most = self.description["update"]["batch"]
        if not 1 <= batch <= most:
            raise HostError(f"{batch} samples a batch; this build takes 1 to {most}")
        self.set_everywhere("batch", batch)

    # Samples

    def _set_mode(self, mode: int) -> None:
        if self._mode != mode:
            self.wait_idle()
            self.set_everywhere("control", mode)
            self._mode = mode

    def train(self, images: object, labels: object) -> Results:
        """Trains on samples in this order; the device updates after every batch of them. Their results.

        The number of samples is a multiple of the batch, so that none is left under way.
        """
        pictures = quantise(self.description["image"], images)
        classes = np.asarray(labels)
        limit, batch = self.description["classes"], self.read("batch")
        if classes.shape != (len(pictures),) or classes.dtype.kind not in "iu":
            raise HostError(
                f"labels: {classes.dtype} of shape {classes.shape} for {len(pictures)} images; integers"
            )
        if len(classes) and not 0 <= classes.min() <= classes.max() < limit:
            raise HostError(f"labels: {classes.min()} to {classes.max()}; classes are 0 to {limit - 1}")
        if len(pictures) % batch:
            raise HostError(
                f"{len(pictures)} samples are no whole batches of {batch}; leave out {len(pictures) % batch}"
            )
        self._set_mode(TRAIN)
        results = self._feed(pictures, [label_message(int(one)) for one in classes])
        self.wait_idle()
        self.updates += len(pictures) // batch
        return results

    def infer(self, images: object) -> Ints:
        """The predicted class of every image."""
        pictures = quantise(self.description["image"], images)
        self._set_mode(0)
        return self._feed(pictures, None).predictions

    def _feed(self, pictures: Ints, labels: Sequence[bytes] | None) -> Results:
        start = len(self._results)
        for number, message in enumerate(image_messages(self.description["image"], pictures)):
            self.link.send(message)
            if labels is not None:
                self.link.send(labels[number])
        while len(self._results) - start < len(pictures):
            self._result(self.link.receive(1)[0])
        table = np.asarray(self._results[start:], dtype=np.int64).reshape(-1, 2)
        del self._results[:]
        return Results(table[:, 0], table[:, 1])

    # Memories

    def _select(self, board: int, space: int) -> None:
        self.write("space", space, board)
        self.write("pointer", 0, board)

    def load(self, parameters: Mapping[str, NDArray]) -> None:
        """Writes masters ``<layer>.weight`` [kh, kw, cin, Cout] and biases ``<layer>.bias`` [Cout], integers in their
        formats; gradients become 0."""
        self.wait_idle()
        layers = self.description["layers"]
        for layer in layers:
            self._fits(parameters, f"{layer['name']}.weight", tuple(layer["weights"]))
            if layer["bias"]:
                self._fits(parameters, f"{layer['name']}.bias", (layer["out_channels"],))
        spaces = self._registers["spaces"]
        for part in self.description["parts"]:
            fold, name = part["fold"], layers[part["layer"]]["name"]
            weights = np.asarray(parameters[f"{name}.weight"], dtype=np.int64)
            own = weights[:, :, slice(*part["inputs"]), slice(*part["outputs"])]
            if part["region"] is not None:
                self._select(part["region"]["board"], part["region"]["space"])
                self.write("data", own.reshape(-1), part["region"]["board"])
            index = weight_index(fold)
            image = np.where(index >= 0, own.reshape(-1)[np.maximum(index, 0)] >> part["drop"], 0)
            self._select(part["board"], part["number"] * 16 + spaces["master"])
            self.write("data", image, part["board"])
            if part["bias"]:
                bias = np.asarray(parameters[f"{name}.bias"], dtype=np.int64)[slice(*part["outputs"])]
                index = bias_index(fold)
                self._select(part["board"], part["number"] * 16 + spaces["bias"])
                self.write("data", np.where(index >= 0, bias[np.maximum(index, 0)], 0).T, part["board"])
        for board in range(self._boards):
            self.read("id", board)

    @staticmethod
    def _fits(parameters: Mapping[str, NDArray], name: str, shape: tuple[int, ...]) -> None:
        if name not in parameters:
            raise HostError(f"parameters: no {name}; give all that parameters.npz of the build has")
        found = np.asarray(parameters[name])
        if found.shape != shape or found.dtype.kind not in "iu":
            raise HostError(f"parameters: {name} is {found.dtype} {found.shape}; integers {shape}")

    def parameters(self) -> dict[str, Ints]:
        """All masters and biases as the device has them, by the names that ``load`` takes."""
        self.wait_idle()
        layers, spaces = self.description["layers"], self._registers["spaces"]
        found = {f"{layer['name']}.weight": np.zeros(layer["weights"], np.int64) for layer in layers}
        found |= {
            f"{layer['name']}.bias": np.zeros(layer["out_channels"], np.int64)
            for layer in layers
            if layer["bias"]
        }
        for part in self.description["parts"]:
            fold, name = part["fold"], layers[part["layer"]]["name"]
            target = found[f"{name}.weight"][:, :, slice(*part["inputs"]), slice(*part["outputs"])]
            if part["region"] is not None:
                self._select(part["region"]["board"], part["region"]["space"])
                flat = self.read_many("data", target.size, part["region"]["board"])
            else:
                index = weight_index(fold).reshape(-1)
                self._select(part["board"], part["number"] * 16 + spaces["master"])
                words = self.read_many("data", len(index), part["board"])
                flat = np.zeros(target.size, np.int64)
                flat[index[index >= 0]] = words[index >= 0]
            target[...] = signed(flat).reshape(target.shape)
            if part["bias"]:
                places = bias_index(fold).T.reshape(-1)
                self._select(part["board"], part["number"] * 16 + spaces["bias"])
                words = signed(self.read_many("data", len(places), part["board"]))
                own = found[f"{name}.bias"][slice(*part["outputs"])]
                own[places[places >= 0]] = words[places >= 0]
        return found
