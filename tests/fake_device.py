"""A device that computes nothing: Verilog that replays what the reference computed, or something else where a
test asks."""

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from hwgen.sim.layout import Layout, pack_lanes
from hwgen.sim.ports import Ports
from hwgen.sim.readback import device_probes
from hwgen.sim.verify import counter_name
from tiny_plan import tiny_plan

from hwgen.data import Dataset
from hwgen.ir.initial import initial_parameters
from hwgen.plan.plan import Plan
from hwgen.plan.registers import (
    DEVICE_ID,
    GLOBAL,
    SPACES,
    STAGE_BASE,
    STAGE_COUNTERS,
    STAGE_STRIDE,
    channel_names,
)
from hwgen.plan.weights import bias_image, weight_image
from hwgen.ref.executor import Reference
from hwgen.ref.trainer import batches

__all__ = ["FakeBuild", "Sabotage", "fake_build", "tiny_plan"]

BUILD_NUMBER = 0x1234ABCD


@dataclass(frozen=True)
class Sabotage:
    """What the device does wrong. ``change``: (probe or "prediction", "loss", word number, bit to flip).

    ``memory``: (stage, space, version, element, what to add); ``counter``: (stage, name, version, what to
    add); ``hang``: (sample, channel that stays valid and is not taken); ``status``: (sample after which
    nothing is taken, status bits that show it).
    """

    change: tuple[str, int, int] | None = None
    memory: tuple[int, str, int, int, int] | None = None
    counter: tuple[int, str, int, int] | None = None
    hang: tuple[int, str] | None = None
    status: tuple[int, int] | None = None
    surplus: bool = False
    mute: bool = False
    drop_word: bool = False
    device_id: int = DEVICE_ID


@dataclass(frozen=True, eq=False)
class FakeBuild:
    """Has the attributes of hwgen.backend.build.Build that simulations need."""

    plan: Plan
    parameters: object
    dataset: Dataset
    files: dict
    path: Path = Path()
    seed: int = 0


@dataclass
class _Recording:
    """Words of each probe, results, memories by version, counters by version."""

    probes: dict = field(default_factory=dict)
    predictions: list = field(default_factory=list)
    losses: list = field(default_factory=list)
    memory: dict = field(default_factory=dict)
    counters: list = field(default_factory=list)


def _ports(plan):
    """Port widths of the device, probes as the plan says."""
    network = plan.network
    channels = len(channel_names(plan))
    widths = {"clk": 1, "rst": 1, "image__payload": plan.image_lanes * network.input.width + 1}
    widths |= {
        "label__payload": 16,
        "result__payload": 48,
        "command__payload": 57,
        "reply__payload": 32,
    }
    widths |= {"channel_valid": channels, "channel_ready": channels}
    for i, planned in enumerate(plan.stages):
        stage, pn = planned.stage, planned.fold.pn
        widths[f"probe_y{i}__payload"] = pn * stage.y.width
        if stage.dx is not None or not stage.frozen:
            widths[f"probe_dy{i}__payload"] = pn * stage.dy.width
        if stage.dx is not None:
            widths[f"probe_dx{i}__payload"] = planned.fold.folding.pc * stage.dx.width
    widths["probe_dz__payload"] = plan.stages[-1].fold.pn * network.loss.dz.width
    return widths


def _words(layout: Layout, tensors):
    lanes = layout.to_lanes(np.asarray(tensors)).reshape(-1, layout.lanes)
    count = -(-layout.lanes * layout.width // 32)
    return [int.from_bytes(row.tobytes(), "little") for row in pack_lanes(lanes, layout.width, count)]


def _memories(plan, parameters, recording, trace=None):
    for i, planned in enumerate(plan.stages):
        fold = planned.fold
        weights, bias = parameters.weights[i], parameters.biases[i]
        dw, db = (None, None) if trace is None else (trace.dw[i], trace.db[i])
        dw = np.zeros_like(weights) if dw is None else dw
        values = {"master": weights, "grad_low": dw, "grad_high": dw >> 32}
        images = {space: weight_image(fold, value) for space, value in values.items()}
        if bias is not None:
            db = np.zeros_like(bias) if db is None else db
            values = {"bias": bias, "bias_grad_low": db, "bias_grad_high": db >> 32}
            images |= {space: bias_image(fold, value).T for space, value in values.items()}
        for space, image in images.items():
            words = [int(v) & 0xFFFFFFFF for v in image.reshape(-1)]
            recording.memory.setdefault((i, space), []).append(words)


def _record(plan, parameters, dataset, order, evaluate):
    """Runs the reference over the batches of ``order``; versions count updates."""
    recording = _Recording()
    reference = Reference(plan.network, parameters)
    probes = device_probes(plan, Ports("hwgen_core", _ports(plan)))
    totals = [dict.fromkeys(STAGE_COUNTERS, 0) for _ in plan.stages]
    recording.counters.append(copy.deepcopy(totals))
    for samples in order:
        before = reference.parameters
        trace = reference.train_batch(dataset.train_images[samples], dataset.train_labels[samples])
        dz = trace.dz.reshape(len(samples), *plan.stages[-1].stage.out_shape)
        for probe in probes:
            tensor = dz if probe.kind == "dz" else getattr(trace, probe.kind)[probe.stage]
            recording.probes.setdefault(probe.stream, []).extend(_words(probe.layout, tensor))
        recording.predictions += trace.predictions.tolist()
        recording.losses += trace.losses.tolist()
        _memories(plan, before, recording, trace)
        for i, counts in enumerate(totals):
            counts["updates"] += not plan.stages[i].stage.frozen
            for name, count in trace.saturated[i].items():
                counts[counter_name(name)] += count
        recording.counters.append(copy.deepcopy(totals))
    _memories(plan, reference.parameters, recording)
    if evaluate:
        recording.predictions += reference.forward(dataset.test_images).predictions.tolist()
        recording.losses += [0] * len(dataset.test_images)
    return recording, {probe.stream: probe.layout.beats for probe in probes}


def _damage(recording, sabotage):
    if sabotage.change is not None:
        name, word, bit = sabotage.change
        target = {"prediction": recording.predictions, "loss": recording.losses}.get(
            name
        ) or recording.probes[name]
        target[word] ^= 1 << bit
    if sabotage.memory is not None:
        stage, space, version, element, add = sabotage.memory
        target = recording.memory[stage, space][version]
        target[element] = (target[element] + add) & 0xFFFFFFFF
    if sabotage.counter is not None:
        stage, name, version, add = sabotage.counter
        recording.counters[version][stage][name] += add


def fake_build(
    plan=None, *, samples=12, test_samples=4, count=3, evaluate=False, seed=0, sabotage=None, parameters=None
):
    """A build whose Verilog replays ``count`` batches in the order of ``seed`` (and then the evaluation)."""
    plan = plan or tiny_plan()
    sabotage = sabotage or Sabotage()
    network = plan.network
    parameters = parameters or initial_parameters(network, 5)
    rng = np.random.default_rng(7)
    shape, size = network.in_shape, network.update.batch
    dataset = Dataset(
        rng.integers(-128, 128, (samples, *shape)), rng.integers(0, network.loss.classes, samples),
        rng.integers(-128, 128, (test_samples, *shape)), rng.integers(0, network.loss.classes, test_samples),
    )  # fmt: skip
    epochs = -(-count // (samples // size)) if count else 0
    order = list(batches(samples, size, epochs, seed))[:count] if count else []
    recording, beats = _record(plan, parameters, dataset, order, evaluate)
    _damage(recording, sabotage)
    text = _verilog(plan, recording, beats, sabotage)
    return FakeBuild(plan, parameters, dataset, {"verilog/hwgen_core.v": text})


def with_files(build, files):
    """The same build with other Verilog."""
    return replace(build, files=files)


def _rom(name, width, values):
    body = "\n".join(f"    {name}[{i}] = {width}'h{value:x};" for i, value in enumerate(values))
    return f"  reg [{width - 1}:0] {name} [0:{max(len(values), 1) - 1}];\n  initial begin\n{body}\n  end\n"


def _verilog(plan, recording, beats, sabotage):
    widths = _ports(plan)
    streams = [*("image", "label"), *beats]
    inputs = {
        "clk",
        "rst",
        "image__payload",
        "image__valid",
        "label__payload",
        "label__valid",
        "result__ready",
    }
    inputs |= {"command__payload", "command__valid", "reply__ready"}
    names = dict(widths)
    for stream in (*streams, "result", "command", "reply"):
        names |= {f"{stream}__valid": 1, f"{stream}__ready": 1}
    if sabotage.drop_word:
        names.pop("probe_y0__payload")
    declare = "".join(
        f"  {'input' if name in inputs else 'output'} {f'[{width - 1}:0] ' if width > 1 else ''}{name};\n"
        for name, width in names.items()
    )
    height, width, channels = plan.network.in_shape
    image_beats = height * width * -(-channels // plan.image_lanes)
    bases, memory = {}, []
    for key, versions in recording.memory.items():
        bases[key] = (len(memory), len(versions[0]))
        memory += [value for version in versions for value in version]
    counters = [
        version[i][name]
        for version in recording.counters
        for i in range(len(plan.stages))
        for name in STAGE_COUNTERS
    ]
    rows = len(plan.stages) * len(STAGE_COUNTERS)
    base = "".join(
        f"      16'd{stage * 16 + SPACES[space]}: begin base = {start}; size = {size}; end\n"
        for (stage, space), (start, size) in bases.items()
    )
    probes = ""
    for name, count in beats.items():
        probes += _rom(f"rom_{name}", widths[f"{name}__payload"], recording.probes.get(name, [0]))
        probes += f"  assign {name}__valid = emitting & (tick < {count});\n  assign {name}__ready = 1'b1;\n"
        if not (sabotage.drop_word and name == "probe_y0"):
            probes += f"  assign {name}__payload = rom_{name}[given * {count} + tick];\n"
    channels_text = _channels(plan, sabotage)
    hang = sabotage.hang[0] if sabotage.hang else 1 << 30
    refuse, refusal = sabotage.status or (1 << 30, 0)
    last_bit = widths["image__payload"] - 1
    results = [
        loss << 16 | prediction
        for prediction, loss in zip(recording.predictions, recording.losses, strict=True)
    ]
    address = {name: register.address for name, register in GLOBAL.items()}
    return f"""\
module hwgen_core({", ".join(names)});
{declare}
{_rom("results", 48, results)}{_rom("memory", 32, memory)}{_rom("counters", 32, counters)}{probes}
  reg [31:0] taken, labels, given, tick, version, done, element, beat, space, control, base, size, row;
  reg [31:0] ops, ops_copy, cycles, cycles_copy, version_copy, rdata, extra;
  reg emitting, resulting, held, updating, answering, bad_load, bad_frame, bad_label;
  wire training = control[0];
  wire [31:0] allowed = (version + 1) * {plan.network.update.batch};
  wire room = taken - given < 2 & ~bad_frame & (~training | taken < allowed);
  wire stuck = given == {hang};
  wire refused = taken >= {refuse};
  assign image__ready = room & ~refused;
  assign label__ready = ~refused & ~bad_label & labels - given < 4;
  assign result__valid = resulting;
  assign result__payload = results[given - extra] ^ bad_load;
  reg waiting, replying;
  reg [56:0] command;
  reg [31:0] answer;
  wire bus__valid = waiting & (bus__write | ~replying);
  wire bus__write = command[56];
  wire [15:0] bus__addr = command[47:32];
  wire [31:0] bus__wdata = command[31:0];
  wire other = command[55:48] != 0;
  wire bus__ready = answering{" & 1'b0" if sabotage.mute else ""};
  assign command__ready = ~waiting;
  assign reply__valid = replying;
  assign reply__payload = answer;
{channels_text}
  wire idle = taken <= given & ~emitting & ~resulting & ~held & ~updating & done == 0;
  always @* begin
    base = 0; size = 1;
    case (space)
{base}    endcase
    row = bus__addr - {STAGE_BASE};
    row = version_copy * {rows} + (row / {STAGE_STRIDE}) * {len(STAGE_COUNTERS)} + row % {STAGE_STRIDE};
  end
  always @(posedge clk) begin
    cycles <= cycles + 1;
    if (image__valid & image__ready) begin
      beat <= beat + 1;
      if (beat == {image_beats - 1}) begin beat <= 0; taken <= taken + 1; end
      if (image__payload[{last_bit}] != (beat == {image_beats - 1})) bad_frame <= 1;
    end
    if (label__valid & label__ready) begin
      if (label__payload < {plan.network.loss.classes}) labels <= labels + 1;
      else bad_label <= 1;
    end
    if (~emitting & ~resulting & ~held & ~updating & ~stuck & taken > given)
    if (~training | labels > given) begin
      emitting <= 1; tick <= 0;
    end
    if (emitting) begin
      tick <= tick + 1; ops <= ops + 1;
      if (tick == {max(beats.values()) - 1}) begin emitting <= 0; resulting <= 1; end
    end
    if (resulting & result__ready) begin
      resulting <= 0; given <= given + 1;
      if (training) done <= done + 1;
      if (training & done == {plan.network.update.batch - 1}) held <= 1;
      if ({int(sabotage.surplus)} && given == {len(results) - 1}) begin resulting <= 1; extra <= 1; end
    end
    if (held & ~control[1]) begin held <= 0; updating <= 1; tick <= 0; end
    if (updating) begin
      tick <= tick + 1;
      if (tick == 9) begin updating <= 0; done <= 0; version <= version + 1; end
    end
    if (command__valid & command__ready) begin waiting <= 1; command <= command__payload; end
    if (reply__valid & reply__ready) replying <= 0;
    if (bus__valid & bus__ready) begin
      waiting <= 0;
      if (~bus__write) begin replying <= 1; answer <= other ? 0 : rdata; end
    end
    answering <= bus__valid & ~answering;
    if (bus__valid & ~answering & ~other) begin
      rdata <= 0;
      if (bus__write) begin
        if (bus__addr == {address["control"]}) control <= bus__wdata;
        if (bus__addr == {address["space"]}) space <= bus__wdata;
        if (bus__addr == {address["pointer"]}) element <= 0;
        if (bus__addr == {address["snapshot"]}) begin
          version_copy <= version; ops_copy <= ops; cycles_copy <= cycles;
        end
      end
      if (bus__addr == {address["data"]}) begin
        element <= element + 1;
        if (bus__write & bus__wdata != memory[base + element]) bad_load <= 1;
        if (bus__write) memory[base + element] <= bus__wdata;
        rdata <= memory[base + version * size + element];
      end
      if (bus__addr == {address["id"]}) rdata <= 32'h{sabotage.device_id:x};
      if (bus__addr == {address["build"]}) rdata <= 32'h{BUILD_NUMBER:x};
      if (bus__addr == {address["samples"]}) rdata <= given;
      if (bus__addr == {address["control"]}) rdata <= control;
      if (bus__addr == {address["cycles_low"]}) rdata <= cycles_copy;
      if (bus__addr == {address["status"]})
        rdata <= {{held, bad_label, bad_frame, idle}} | (refused ? {refusal} : 0);
      if (bus__addr >= {STAGE_BASE} & bus__addr < {STAGE_BASE + STAGE_STRIDE * len(plan.stages)})
        rdata <= bus__addr % {STAGE_STRIDE} < 3 ? ops_copy : counters[row];
    end
    if (rst) begin
      taken <= 0; labels <= 0; given <= 0; tick <= 0; version <= 0; done <= 0; element <= 0;
      beat <= 0; space <= 0; extra <= 0;
      control <= 1; ops <= 0; ops_copy <= 0; cycles <= 0; cycles_copy <= 0; version_copy <= 0; rdata <= 0;
      emitting <= 0; resulting <= 0; held <= 0; updating <= 0; answering <= 0; bad_load <= 0; bad_frame <= 0;
      bad_label <= 0; waiting <= 0; replying <= 0;
    end
  end
endmodule
"""


def _channels(plan, sabotage):
    text = ""
    for bit, name in enumerate(channel_names(plan)):
        valid = ready = "emitting"
        if name in ("image", "label", "result"):
            valid, ready = f"{name}__valid", f"{name}__ready"
        elif sabotage.hang is not None and name == sabotage.hang[1]:
            valid, ready = "1'b1", "~stuck"
        text += f"  assign channel_valid[{bit}] = {valid};\n  assign channel_ready[{bit}] = {ready};\n"
    return text
