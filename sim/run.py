"""``hwgen sim``: runs the emitted Verilog of a build and compares it with the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..backend.arrays import pack
from ..backend.trained import parameter_tensors
from ..backend.writer import write_tree
from ..data import Dataset
from ..errors import BuildError, DataError, MismatchError, ToolError, WatchdogError
from ..ir.initial import Parameters
from ..plan.plan import Plan
from ..plan.registers import DEVICE_ID, STATUS_BAD_FRAME, STATUS_BAD_LABEL, STATUS_BAD_MEMORY
from ..ref.executor import Reference
from .boundary import boundary_streams, record
from .cables import (
    IDEAL,
    CableOptions,
    alone_simulation,
    chain_simulation,
    dead_links,
    device_channels,
    link_results,
    rare_frames,
    refused_link,
)
from .cocotb_driver import run_cocotb
from .compare import Comparison
from .cpp_driver import Conditions, run_cpp
from .layout import Words, image_layout
from .measure import measure
from .memory_top import device_simulation
from .ports import Ports
from .program import Outcome, read_results, write_program
from .readback import device_probes
from .rolled import RolledArray, roll
from .session import Session, waiting_for
from .surroundings import read_outputs, read_sink, write_surroundings
from .verify import Verifier
from .verilate import LONG_RUN, BuildOptions, build_driver
from .watchdog import explain

__all__ = ["SIMULATORS", "SimOptions", "Simulated", "simulate"]

SIMULATORS = ("verilator", "icarus")
WRITE_CYCLES, READ_CYCLES = 4, 32
"""About what a register access takes, to choose the C++ compiler's effort."""


class Simulated(Protocol):
    """What a simulation needs of a hwgen.backend.build.Build."""

    @property
    def plan(self) -> Plan:
        """The device's plan."""

    @property
    def parameters(self) -> Parameters:
        """The first parameters."""

    @property
    def dataset(self) -> Dataset:
        """Quantised samples."""

    @property
    def files(self) -> Mapping[str, str]:
        """Verilog texts by path."""


@dataclass(frozen=True)
class SimOptions:
    """``batches``: train so many, every tensor compared, and two more for the timing; or ``epochs``, results
    compared.

    ``evaluate``: the held-out samples at the end. ``seed`` orders the samples and draws the stalls, ``stall``
    is the chance of one on each host stream. ``gradients`` False leaves out the reading of dW, db and of all
    memories between batches. ``trace`` is an FST file to write, ``dump`` a directory for the tensors,
    ``watchdog`` the cycles without progress, ``poison`` starts registers and memories without reset at
    random; ``cables`` are the conditions of a chain's links; ``device`` is the one board of it to simulate,
    against what crosses its links by the reference. ``batch`` samples make a batch, up to the plan's, which None is.
    ``timing`` False leaves out the two batches. ``rolled``: models for the arrays (see rolled), and their memories and
    external memory read and written by the driver itself. ``weights`` is an .npz file for what was trained.
    """

    batches: int | None = None
    epochs: int | None = None
    evaluate: bool = False
    simulator: str = "verilator"
    seed: int = 0
    stall: float = 0.0
    trace: Path | None = None
    dump: Path | None = None
    watchdog: int = 100_000
    gradients: bool = True
    poison: bool = False
    cables: CableOptions = IDEAL
    device: int | None = None
    batch: int | None = None
    timing: bool = True
    rolled: bool = False
    weights: Path | None = None


def simulate(
    build: Simulated, options: SimOptions, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Runs and compares; ``progress`` is told (results so far, results in all) about once a second.

    Result: ``compared`` and ``mismatched`` integers; ``batches`` and ``samples`` trained; ``cycles`` of the
    whole run; ``cycles_per_sample`` between results in the steady part of free-running batches;
    ``cycles_per_batch`` from the last result of a free-running batch to that of the next;
    ``predicted_cycles_per_sample``, ``predicted_cycles_per_batch``; ``occupancy`` {forward, backward,
    gradient, total}: useful multiply-accumulates / (multipliers · cycles) in the steady part of the second
    free-running batch; ``multipliers``; ``macs_per_second``: useful multiply-accumulates of the free-running
    batches / seconds that they took; ``seconds`` of the simulation; ``simulator``; ``accuracy`` on the
    held-out samples; ``seed``; ``build``: the number in the device; ``stages``: [{name, multipliers,
    occupancy {forward, backward, gradient}, counters (registers.STAGE_COUNTERS after training), depths
    (capacities beside the counters' high-water marks), board}]; ``links``: [{link, board, state, counters
    (links.LINK_COUNTERS), words {channel: link words sent, without management}}], the ends of links at the boards
    simulated; words of whole chains only. What a run does not give is None.

    Raises MismatchError, WatchdogError, DataError, BuildError, ToolError.
    """
    if options.simulator not in SIMULATORS:
        raise ToolError(f"simulator: no {options.simulator}; there are {', '.join(SIMULATORS)}")
    plan, sinks, chain = build.plan, [], None
    _check_batch(plan, options.batch)
    if options.device is not None:
        plan, chain = _alone(plan, options.device), plan
        sinks = boundary_streams(plan, options.device, options.batch)[1]
    files, arrays = _rolled(plan, build.files, options)
    session = Session.prepare(
        plan, build.parameters, build.dataset, sinks=sinks, chain=chain,
        batches=options.batches, epochs=options.epochs, evaluate=options.evaluate,
        gradients=options.gradients, seed=options.seed, batch=options.batch, timing=options.timing,
        backdoor=options.rolled,
    )  # fmt: skip
    if not session.program.fed:
        Comparison().finish()
    around = recording = None
    if options.device is not None:
        recording = record(
            build.plan, options.device, build.parameters, session.images, session.labels, session.trained,
            session.evaluated, options.batch,
        )  # fmt: skip
        files, ports, around = alone_simulation(
            plan, files, options.cables, options.seed, recording, options.stall
        )
    elif plan.links:
        files, ports, around = chain_simulation(plan, files, options.cables, options.seed, options.stall)
    else:
        _no_cables(options.cables)
        files, ports, around = device_simulation(plan, files, options.stall, options.seed)
    probes = device_probes(plan, ports)
    network = plan.network
    layout = image_layout(plan)
    with tempfile.TemporaryDirectory(prefix="hwgen-sim-") as name:
        directory = Path(name)
        write_program(directory, session.program, ports, layout, session.images, session.labels)
        if around is not None:
            write_surroundings(directory, around, ports)
        outcome = _drive(plan, files, arrays, session, ports, directory, options, progress)
        outputs = read_outputs(directory) if around is not None else {}
        _check_outcome(outcome, session, options, outputs)
        results = read_results(directory)
        number = _device_number([results.reads[part] for part in session.build])
        for part in session.status:
            _refused(int(results.reads[part][0]), outcome)
        streams = [(probe, probe.read(directory, ports)) for probe in probes]
        boundary = None
        if recording is not None:
            found = {stream.port: read_sink(directory, ports, stream.port) for stream in recording.sinks}
            boundary = recording, found
        reference = Reference(network, build.parameters)
        verifier = Verifier(session, reference, results, streams, options.dump, boundary)
        accuracy = verifier.run()
    if options.weights is not None:  # the verifier has found them in the hardware, too
        trained = pack(parameter_tensors(network, reference.parameters))
        write_tree(options.weights.parent, {options.weights.name: trained})
    comparison = verifier.comparison
    return {
        "compared": comparison.compared,
        "mismatched": comparison.mismatched,
        "batches": len(session.trained),
        "samples": sum(len(batch) for batch in session.trained),
        "cycles": outcome.cycles,
        **measure(session, results),
        "seconds": outcome.seconds,
        "simulator": options.simulator,
        "rolled": options.rolled,
        "accuracy": accuracy,
        "seed": options.seed,
        "build": number,
        "links": link_results(plan, results.reads, session.links, outputs),
    }


def _alone(plan: Plan, device: int) -> Plan:
    """The plan of one board. Raises BuildError if there is none of that number."""
    if not plan.links:
        raise BuildError(f"device {device}: this build is one board without links; leave --device out")
    if not 0 <= device < len(plan.boards):
        boards = ", ".join(f"{k} ({name})" for k, name in enumerate(plan.boards))
        raise BuildError(f"device {device}: no such board; this chain has {boards}")
    return plan.alone(device)


def _check_batch(plan: Plan, batch: int | None) -> None:
    """Raises DataError unless the sums of the plan hold so many samples."""
    most = plan.network.update.batch
    if batch is not None and not 1 <= batch <= most:
        raise DataError(f"batch of {batch} samples; the sums of this build hold 1..{most}, give as many")


def _rolled(
    plan: Plan, files: Mapping[str, str], options: SimOptions
) -> tuple[Mapping[str, str], Sequence[RolledArray]]:
    """The Verilog files, with models for arrays if asked for, and those."""
    if not options.rolled:
        return files, ()
    if options.simulator != "verilator":
        raise ToolError(
            f"simulator: rolled arrays are C++, which {options.simulator} has no place for; take verilator"
        )
    return roll(plan, files)


def _no_cables(cables: CableOptions) -> None:
    """Raises BuildError if conditions of cables were given for a single device."""
    if cables != IDEAL:
        raise BuildError(
            "cables: this build is one board without links; leave the options of cables out, or build with --cluster"
        )


def _drive(
    plan: Plan, files: Mapping[str, str], arrays: Sequence[RolledArray], session: Session, ports: Ports,
    directory: Path, options: SimOptions, progress: Callable[[int, int], None] | None,
) -> Outcome:  # fmt: skip
    """Builds the simulation and runs the program in ``directory``."""
    total = session.program.fed
    trace = options.trace.absolute() if options.trace is not None else None
    if trace is not None:
        trace.parent.mkdir(parents=True, exist_ok=True)
    conditions = Conditions(
        stall=options.stall,
        seed=options.seed,
        watchdog=_patience(options),
        trace=trace,
        poison=options.poison,
    )

    def tell(results: int, cycles: int) -> None:
        if progress is not None:
            progress(results, total)

    if options.simulator == "icarus":
        return run_cocotb(files, ports, directory, conditions, "icarus", tell)
    program, prediction = session.program, plan.prediction
    cycles = total * prediction.cycles_per_sample + len(session.trained) * prediction.cycles_per_batch
    cycles += program.loaded * WRITE_CYCLES + program.reads * READ_CYCLES
    fast = cycles >= LONG_RUN
    choice = BuildOptions(fast, options.trace is not None, options.poison, options.rolled)
    return run_cpp(build_driver(files, ports, choice, arrays), directory, conditions, tell)


def _refused(status: int | None, outcome: Outcome) -> None:
    """Raises DataError if the status register tells of a bad image or label, ToolError of a memory that failed."""
    if status is not None and status & STATUS_BAD_MEMORY:
        raise ToolError(f"simulation: the external memory answered with an error (status {status})")
    taken = outcome.fed - outcome.unfed
    for bit, what in (
        (STATUS_BAD_FRAME, "an image has too few or too many beats"),
        (STATUS_BAD_LABEL, "a label is no class"),
    ):
        if status is not None and status & bit:
            raise DataError(
                f"simulation: the device stopped after {taken} images: {what} (status {status}); "
                "give data of the network's shape and classes"
            )


def _patience(options: SimOptions) -> int:
    """Cycles without progress until the hardware is stuck: nothing moves before the last board left reset."""
    return options.watchdog + options.cables.reset_skew


def _check_outcome(
    outcome: Outcome, session: Session, options: SimOptions, outputs: Mapping[str, int]
) -> None:
    plan = session.plan
    if outcome.end == "done":
        return
    refused_link(plan, outputs)
    _refused(outcome.status, outcome)
    if outcome.results > outcome.fed:
        raise MismatchError(f"result: {outcome.results} results of {outcome.fed} images")
    waiting = waiting_for(session.program, outcome.op, session.sinks)
    text = explain(outcome, device_channels(plan), waiting, _patience(options))
    causes = dead_links(plan, outputs) or rare_frames(plan, options.cables)
    raise WatchdogError("; ".join([text, *causes]))


def _device_number(boards: Sequence[Words]) -> int:
    """The build number that all boards show. Raises BuildError if one is no hwgen device, or of another build."""
    for k, words in enumerate(boards):
        where = f"board {k}" if len(boards) > 1 else "device"
        if int(words[0]) != DEVICE_ID:
            raise BuildError(
                f"{where}: register id reads 0x{int(words[0]):08X}, not 0x{DEVICE_ID:08X}; build again"
            )
        if words[1] != boards[0][1]:
            raise BuildError(
                f"{where}: register build reads 0x{int(words[1]):08x}, that of board 0 0x{int(boards[0][1]):08x}; "
                "put boards of one build together"
            )
    return int(boards[0][1])
