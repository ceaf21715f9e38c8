"""A broken device never passes: `hwgen sim` names the first wrong tensor (exit 1) or the stuck channel (exit
4)."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from device_cases import run
from small_device import emitted_beside, instance, rewired, saved, substituted

from hwgen import cli
from hwgen.errors import MismatchError, WatchdogError
from hwgen.plan.buffers import least_depths
from hwgen.plan.plan import Depths

QUICK = {"batches": 1, "gradients": False, "watchdog": 600}
CORE = "hwgen_core"


def with_depths(build, **changes):
    """The build with the least depths in stage conv, some of them changed."""
    first, conv, linear = build.plan.stages
    least = least_depths(conv)
    depths = replace(least, **{name: change(getattr(least, name)) for name, change in changes.items()})
    return emitted_beside(build, replace(build.plan, stages=(first, replace(conv, depths=depths), linear)))


def conv_module(build):
    """Name of the Verilog module of stage conv."""
    wrapper = instance(build, CORE, "stage_1")[0]
    return re.search(
        r"hwgen_stage_\w+", build.files[f"verilog/{CORE}.v"].split(f"module \\{wrapper} ", 1)[1]
    )[0]


def multiplier(build, operands):
    """The build with one product of the PE (0, 0) of stage conv negated."""
    tile = re.search(r"hwgen_tile_\w+", build.files[f"verilog/{conv_module(build)}.v"])[0]
    return substituted(build, f"verilog/{tile}.v", rf"= (\$signed\({operands}\) \* .*);", r"= -(\1);")


def cut(build, producer, ready, consumer, valid):
    """The build with a stream between two parts of the core held: nothing is taken, nothing arrives."""
    return rewired(rewired(build, CORE, producer, ready, "1'b0"), CORE, consumer, valid, "1'b0")


def swapped_taps(build):
    """The build whose forward pass sees kernel positions 0 and 1 of stage conv exchanged."""
    taps = "{i__payload[83:28], i__payload[19:12], i__payload[27:20]}"
    return rewired(build, conv_module(build), "array", "f_x", taps)


def command(build, tmp_path, capsys, *options):
    """`hwgen sim` of a build: exit code and the line about it; result.json tells the same."""
    directory = saved(build, tmp_path / "out")
    capsys.readouterr()
    code = cli.main(["sim", str(directory), "--simulator", "icarus", "--watchdog", "600", *options])
    line = capsys.readouterr().err.splitlines()[-1]
    result = json.loads((directory / "result.json").read_text())
    assert (f"hwgen: {result['error']}", result["exit_code"]) == (line, code)
    return code, line


def test_a_flipped_sign_in_the_forward_array(small, tmp_path, capsys):
    code, line = command(multiplier(small, "x_0_2"), tmp_path, capsys, "--batches", "1", "--no-gradients")
    assert code == 1
    assert re.match(
        r"hwgen: conv\.y: batch 0, sample 0, index \[\d, \d, \d\]: hardware \d+, reference ", line
    )


def test_a_flipped_sign_in_the_backward_array(small):
    with pytest.raises(
        MismatchError, match=r"^conv\.dx: batch 0, sample 0, index .*different too: first\.dy"
    ):
        run(multiplier(small, "dy_0_2"), **QUICK)


def test_a_flipped_sign_in_the_gradient(small):
    # PE (0, 0) holds kernel position (0, 0) of both channels for outputs 0 and 2.
    with pytest.raises(
        MismatchError, match=r"^conv\.dw: batch 0, index \[0, 0, 0, 0\]: .* \(4 of 54 differ\)"
    ):
        run(multiplier(small, "grad_a_0_0"), **QUICK | {"gradients": True})


def test_two_kernel_taps_swapped(small, tmp_path, capsys):
    code, line = command(swapped_taps(small), tmp_path, capsys, "--batches", "1", "--no-gradients")
    assert code == 1
    assert line.startswith("hwgen: conv.y: batch 0, sample 0, index ")


def test_a_dropped_ready(small, tmp_path, capsys):
    """Stage first never waits for conv, so conv waits in vain for the words that it lost."""
    broken = rewired(small, CORE, "stage_0", "y__ready", "1'b1")
    code, line = command(broken, tmp_path, capsys, "--batches", "1", "--no-gradients")
    assert code == 4
    assert re.match(r"hwgen: watchdog: nothing moved for 600 cycles .*; stuck channel: conv\.store ", line)


@pytest.mark.parametrize(
    ("channel", "ends"),
    [
        (r"first\.y", ("stage_0", "y__ready", "stage_1", "x__valid")),
        (r"conv\.dx", ("stage_1", "dx__ready", "stage_0", "dy__valid")),
    ],
)
def test_a_ready_held_at_0(small, tmp_path, capsys, channel, ends):
    code, line = command(cut(small, *ends), tmp_path, capsys, "--batches", "1", "--no-gradients")
    assert code == 4
    assert re.search(rf"; stuck channel: {channel} \(valid, not ready, blocked too: ", line)


def test_a_store_shortened_by_one_through_the_command(small, tmp_path, capsys):
    broken = with_depths(small, store_rows=lambda least: least - 1)
    code, line = command(broken, tmp_path, capsys, "--batches", "1", "--no-gradients")
    assert code == 4
    assert re.search(r"; stuck channel: conv\.\w+ \(valid, not ready", line)


SHORTER = {
    "window_rows": 1,
    "col_rows": 1,
    "mask_words": 2,  # the register of ReLU and that of the pool hold one word more than their FIFOs
    "argmax_words": 2,
    "pool_rows": 1,
    "pool_col_rows": 1,
}


@pytest.mark.parametrize(
    "buffer",
    [pytest.param(b, marks=pytest.mark.soak) if b.startswith("pool") else b for b in SHORTER],
)
def test_a_buffer_too_short_hangs_its_stage(small, buffer):
    with pytest.raises(WatchdogError, match=r"; stuck channel: conv\.\w+ \(valid, not ready"):
        run(with_depths(small, **{buffer: lambda least: least - SHORTER[buffer]}), **QUICK)


def test_depths_change_no_bit(small, tmp_path):
    """At the computed least, one more, and twice that, every tensor is the same."""
    dumps = []
    for number, change in enumerate([lambda d: d, lambda d: d and d + 1, lambda d: 2 * d]):
        device = with_depths(small, **{field.name: change for field in fields(Depths)})
        assert run(device, **QUICK, dump=tmp_path / str(number))["mismatched"] == 0
        with np.load(tmp_path / str(number) / "batch_0000.npz") as dump:
            dumps.append({name: dump[name] for name in dump.files if name.endswith(".hardware")})
    assert len(dumps[0]) == 9
    for dump in dumps[1:]:
        assert dump.keys() == dumps[0].keys()
        for name, tensor in dump.items():
            assert np.array_equal(tensor, dumps[0][name]), name
