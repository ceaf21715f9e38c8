"""Random stages and ways to deal their rows, and the geometries of the parts."""

from geometry_cases import KERNELS, PADS

from hwgen.ir.stage import Stage
from hwgen.ir.window import Window2d
from hwgen.numeric import Q
from hwgen.plan.geometry import Geometry
from hwgen.plan.part import Part, part_stage
from hwgen.plan.rows import Rows, row_problems

__all__ = ["draw_deal", "draw_part_geometry", "draw_stage", "parts_by_rows"]

Q8 = Q(8, 4)


def draw_stage(rng, pooled=True):
    """A stage of more than one row of output, with a pool or without."""
    while True:
        kernel = KERNELS[rng.integers(len(KERNELS))]
        stride = tuple(int(v) for v in rng.choice([1, 1, 2, 3], 2))
        dilation = tuple(int(v) for v in rng.choice([1, 1, 2], 2))
        size = (int(rng.integers(2, 13)), int(rng.integers(1, 7)))
        pads = [(0, 0, 0, 0), (1, 1, 1, 1), (3, 1, 2, 1), *PADS][rng.integers(3 + len(PADS))]
        window = Window2d(*size, kernel, stride, pads, dilation)
        if window.out_height < 2 or window.out_width < 1:
            continue
        pool = None
        if pooled and rng.random() < 0.6 and window.out_height >= 4:
            kernel, step = (
                int(n) for n in rng.choice([[1, 1], [2, 2], [2, 2], [3, 2], [3, 2], [2, 1], [3, 3], [1, 2]])
            )
            pads = int(rng.integers(0, kernel // 2 + 1)) if kernel != step else 0
            pool = Window2d(
                window.out_height,
                window.out_width,
                (kernel, 1),
                (step, 1),
                (pads, 0, int(rng.integers(0, pads + 1)), 0),
            )
        return Stage("conv", 0, window, 2, 3, Q8, Q8, Q(12, 8), Q(12, 6), Q8, Q8, Q8, pool=pool)


def draw_deal(rng, stage):
    """(deal, count) of uneven turns, some of no row; None where the stage cannot be cut so."""
    height, count = stage.out_shape[0], int(rng.integers(2, 5))
    most = int(rng.choice([1, 2, 3, height]))
    deal = []
    while sum(deal) < height:
        deal.append(min(int(rng.integers(0, most + 1)), height - sum(deal)))
    return None if row_problems(stage, deal, count) else (tuple(deal), count)


def parts_by_rows(stage, deal, count):
    """The parts of a stage."""
    rows = Rows(stage, tuple(deal), count)
    return [Part("rows", p, count, 0, len(rows.y(p)), tuple(deal)) for p in range(count)]


def draw_part_geometry(rng, most=250):
    """The geometry of a part of some rows, with blocks that do not cross rows."""
    while True:
        stage = draw_stage(rng)
        dealt = draw_deal(rng, stage)
        if dealt is None:
            continue
        part = parts_by_rows(stage, *dealt)[rng.integers(dealt[1])]
        window = part_stage(stage, part, 0).window
        kh, kw = window.kernel
        divisors = [d for d in range(1, window.out_width + 1) if window.out_width % d == 0]
        groups, cgs, fn, pc = (int(v) for v in rng.choice([1, 1, 2], 4))
        u, b = int(rng.choice([1, kw, kh * kw])), int(rng.choice(divisors))
        geometry = Geometry(window, u, pc, groups, cgs, fn, b)
        if geometry.M * geometry.groups * geometry.fk * fn <= most:
            return geometry
