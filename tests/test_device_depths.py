"""Depths of buffers change no bit: at the computed least, one more, and twice that, every tensor is the same."""

from dataclasses import fields, replace

import numpy as np
from device_cases import run
from small_device import emitted_beside

from hwgen.plan.buffers import least_depths
from hwgen.plan.plan import Depths


def test_depths_change_no_bit(small, tmp_path):
    dumps = []
    for number, change in enumerate([lambda d: d, lambda d: d and d + 1, lambda d: 2 * d]):
        stages = []
        for planned in small.plan.stages:
            least = least_depths(planned)
            depths = Depths(**{f.name: change(getattr(least, f.name)) for f in fields(Depths)})
            stages.append(replace(planned, depths=depths))
        device = emitted_beside(small, replace(small.plan, stages=tuple(stages)))
        result = run(device, batches=1, gradients=number == 0, dump=tmp_path / str(number))
        assert result["mismatched"] == 0
        with np.load(tmp_path / str(number) / "batch_0000.npz") as dump:
            dumps.append({name: dump[name] for name in dump.files if name.endswith(".hardware")})
    for dump in dumps[1:]:
        assert dump.keys() <= dumps[0].keys()
        assert {"first.y", "conv.dy", "conv.dx", "linear.y", "loss.dz"} <= {n[:-9] for n in dump}
        for name, tensor in dump.items():
            assert np.array_equal(tensor, dumps[0][name]), name
