"""Constant tables, and the loop nest against plain loops in all four orders."""

import gc

import numpy as np
import pytest
from amaranth.sim import Simulator
from geometry_cases import FIXED, draw_geometry, flags_of, ops, rng_of, x_word_of

from hwgen.gateware.loops import ORDERS, Nest
from hwgen.gateware.table import Table


def simulate(part, body, clocked=True):
    simulator = Simulator(part)
    if clocked:
        simulator.add_clock(1e-6)
    simulator.add_testbench(body)
    simulator.run()


@pytest.mark.parametrize("length", [1, 2, 3, 17])
def test_table_shows_its_numbers(length):
    rng = rng_of(length, 31)
    fields = {
        "small": rng.integers(0, 2, length),
        "signed": rng.integers(-100, 100, length),
        "negative": rng.integers(-9, 0, length),
        "wide": rng.integers(0, 1 << 40, length),
        "constant": [5] * length,
        "least": [-4] * length,
        "zero": [0] * length,
    }
    table = Table(fields)

    async def body(ctx):
        for index in [*range(length), *reversed(range(length))]:
            ctx.set(table.index, index)
            for name, values in fields.items():
                assert ctx.get(getattr(table, name)) == values[index]

    simulate(table, body, clocked=False)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize("fields", [{"a": [1, 2], "b": [1]}, {"a": []}, {}])
def test_table_of_unequal_fields(fields):
    message = r"^Table: fields of \[.*\] numbers; they must have the same length, at least 1$"
    with pytest.raises(ValueError, match=message):
        Table(fields)
    gc.collect()  # an unused part warns when it is collected: here, not in a later test


def expected(geometry, order):
    """What the nest shows, by op of a sample."""
    rows = []
    for start, pixel, g, nf, kf in ops(geometry, order):
        oy, ox = divmod(pixel, geometry.window.out_width)
        position = kf // geometry.cgs * geometry.u
        ky, kx = divmod(position, geometry.window.kernel[1])
        end = min(start + geometry.b, geometry.M) - 1
        last = {
            "forward": (geometry.groups, geometry.fn, geometry.fk),
            "backward": (geometry.groups, geometry.fn, geometry.fk),
            "chunks": (geometry.groups, 1, geometry.fk),
            "sums": (geometry.groups, geometry.fn, 1),
        }[order]
        block_last = pixel == end and (g + 1, nf + 1, kf + 1) == last
        row = {
            "oy": oy,
            "ox": ox,
            "m": pixel - start,
            "fresh": (g, nf, kf) == (0, 0, 0),
            "x_last": ox == geometry.window.out_width - 1,
            "visit_last": pixel == end,
            "block_last": block_last,
            "sample_last": block_last and pixel == geometry.M - 1,
        }
        if order != "sums":
            row |= {"ky": ky, "kx": kx, "x_word": x_word_of(geometry, g, kf)}
        if order != "chunks":
            row |= {"out_word": g * geometry.fn + nf}
        flags = flags_of(geometry, order, start, pixel, g, nf, kf) if order in ("forward", "backward") else {}
        rows.append((row, flags))
    return rows


def check_nest(geometry, order, seed, stalls=0.3, samples=2):
    nest = Nest(geometry, order)
    wanted = expected(geometry, order)
    rng = np.random.default_rng((seed, 32))

    async def body(ctx):
        for row, flags in wanted * samples:
            while True:
                shown = {name: ctx.get(getattr(nest, name)) for name in row}
                assert shown == row, (order, geometry)
                assert {name: ctx.get(getattr(nest.flags, name)) for name in flags} == flags, (
                    order,
                    geometry,
                )
                step = int(rng.random() >= stalls)
                ctx.set(nest.step, step)
                await ctx.tick()
                if step:
                    break

    simulate(nest, body)


def test_four_orders():
    assert [*ORDERS] == ["forward", "backward", "chunks", "sums"]


@pytest.mark.parametrize("order", [*ORDERS])
@pytest.mark.parametrize("case", range(len(FIXED)))
def test_nest_fixed(case, order):
    check_nest(FIXED[case], order, case)


@pytest.mark.parametrize("order", [*ORDERS])
@pytest.mark.parametrize("seed", range(10))
def test_nest_random(seed, order):
    check_nest(draw_geometry(rng_of(seed, 33), 400), order, seed)
