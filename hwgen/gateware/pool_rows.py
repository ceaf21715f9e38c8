"""Rows before a pool whose windows lie on several boards: handed on forward, their errors added up on the way back."""

from __future__ import annotations

from amaranth.lib import wiring

from ..ir.stage import Stage
from ..numeric import Q
from ..plan.plan import StagePlan
from .round import Requantise
from .rows import AddRows, RowDeal, RowMerge
from .stream import Fifo, lanes

__all__ = ["add_conv_rows", "share_conv_rows"]


def share_conv_rows(m, plan: StagePlan, whole: Stage, ports, own):
    """What the pool of a part takes: rows of its own array, and those of ``ports.conv_in`` under its windows.

    Rows under windows of parts behind it go to ``ports.conv_out``.
    """
    rows, p = plan.part.rows(whole), plan.part.index
    shape, words = own.payload.shape(), whole.window.out_width * plan.fold.y_words
    mine, pooled, come, onward = (
        each.tolist() for each in (rows.conv(p), rows.pooled(p), rows.shared(p), rows.shared(p + 1))
    )
    here, there = [], []
    for name, source, names in (("own", own, mine), ("in", ports.conv_in if come else None, come)):
        if source is None:
            continue
        source = wiring.flipped(source) if name == "in" else source
        takers = [(row in {*pooled}) + 2 * (row in {*onward}) for row in names]
        deal = RowDeal(shape, words, takers)
        m.submodules[f"conv_{name}_deal"] = deal
        wiring.connect(m, source, deal.i)
        depth = plan.depths.turn_conv if name == "own" else plan.depths.turn_conv_in
        o = deal.o[0]
        if depth:
            fifo = Fifo(shape, depth * plan.fold.y_words)
            m.submodules[f"conv_{name}_turn"] = fifo
            wiring.connect(m, o, fifo.i)
            o = fifo.o
        here.append((o, names))
        there.append((deal.o[1], names))
    if onward:
        o = _merge(m, "onward", shape, words, onward, there)
        m.submodules.conv_out_fifo = fifo = Fifo(shape, 2)
        wiring.connect(m, o, fifo.i)
        wiring.connect(m, fifo.o, wiring.flipped(ports.conv_out))
    return _merge(m, "pooled", shape, words, pooled, here)


def _merge(m, name, shape, words, rows, sources):
    """``rows`` of one or two (stream, its rows)."""
    givers = [next(k for k, (_, own) in enumerate(sources) if row in {*own}) for row in rows]
    if len(sources) == 1:
        return sources[0][0]
    merge = RowMerge(shape, words, givers)
    m.submodules[f"conv_{name}"] = merge
    for (o, _), port in zip(sources, merge.i, strict=True):
        wiring.connect(m, o, port)
    return merge.o


def add_conv_rows(m, plan: StagePlan, whole: Stage, ports, own):
    """Errors of a part's own rows before the pool, saturated, and the count of clipped lanes.

    They are the exact sums ``own`` of its pool's adjoint and ``ports.unpooled_in`` of those behind it. Sums of rows of
    parts before go to ``ports.unpooled_out``.
    """
    stage, rows, p = plan.stage, plan.part.rows(whole), plan.part.index
    pn, width = plan.fold.pn, whole.pool_back_bits
    mine, pooled, back = ({*each.tolist()} for each in (rows.conv(p), rows.pooled(p), rows.shared(p + 1)))
    summed = sorted(pooled | back)
    m.submodules.add_conv = add = AddRows(
        pn, width, whole.window.out_width * plan.fold.y_words,
        [row in pooled for row in summed], [row in back for row in summed], [row not in mine for row in summed],
    )  # fmt: skip
    wiring.connect(m, own, add.own)
    if back:
        source = wiring.flipped(ports.unpooled_in)
        if plan.depths.turn_unpooled:
            fifo = Fifo(lanes(pn, width), plan.depths.turn_unpooled * plan.fold.y_words)
            m.submodules.unpooled_turn = fifo
            wiring.connect(m, source, fifo.i)
            source = fifo.o
        wiring.connect(m, source, add.back)
    if any(row not in mine for row in summed):
        m.submodules.unpooled_out_fifo = out = Fifo(lanes(pn, width), 2)
        wiring.connect(m, add.rest, out.i)
        wiring.connect(m, out.o, wiring.flipped(ports.unpooled_out))
    m.submodules.round_conv = rounder = Requantise(width, 0, Q(stage.dy.width, 0), pn)
    wiring.connect(m, add.done, rounder.i)
    return rounder.o, rounder.saturated
