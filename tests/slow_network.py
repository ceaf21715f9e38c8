"""A second, slow statement of hwgen.ir.stage: one product at a time, on Python integers of any size."""

import itertools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hwgen.ref.softmax import softmax_cross_entropy

__all__ = ["SlowNetwork", "SlowTrace"]

COUNTED = ("y", "dx", "dy", "master", "bias", "zero_updates")


def rounded(value, shift, random=None):
    """value / 2**shift: Python rounds half to even; floor after adding ``random``."""
    if random is not None and shift > 0:
        return (value + random) // 2**shift
    return round(Fraction(value) / Fraction(2) ** shift)


def clipped(value, q):
    return min(max(value, -(2 ** (q.width - 1))), 2 ** (q.width - 1) - 1)


def activated(value, stage):
    """A value behind a stage's activation, and the slope there."""
    form = stage.activation
    if form is None:
        return value, Fraction(1)
    if form.slope is not None:
        slope = Fraction(1) if value > 0 else Fraction(form.slope[0], 2 ** form.slope[1])
        return round(value * slope), slope
    unit = Fraction(2) ** -stage.y.frac
    for bound, beyond in ((form.low, -1), (form.high, 1)):
        if bound is None:
            continue
        at = round(Fraction(bound) / unit)
        if at == clipped(at, stage.y) and (value - at) * beyond >= 0:
            return at, Fraction(0)
    return value, Fraction(1)


def mix(h):
    h = (h + h * 1024) % 2**32
    h ^= h // 64
    h = (h + h * 8) % 2**32
    h ^= h // 2048
    return (h + h * 32768) % 2**32


def hashed(seed, tensor, step, index):
    key = 0
    for word in (seed, tensor, step):
        key = mix((key + word) % 2**32)
    return mix(mix((key + index) % 2**32))


def pixels(window):
    return itertools.product(range(window.out_height), range(window.out_width))


def seen(window, oy, ox):
    """(ky, kx, iy, ix) of every kernel position inside the image, in raster order."""
    for ky, kx in itertools.product(*map(range, window.kernel)):
        iy = oy * window.stride[0] + ky * window.dilation[0] - window.pads[0]
        ix = ox * window.stride[1] + kx * window.dilation[1] - window.pads[1]
        if 0 <= iy < window.height and 0 <= ix < window.width:
            yield ky, kx, iy, ix


def empty(*shape):
    return np.zeros(shape, dtype=object)


@dataclass
class SlowTrace:
    y: list = field(default_factory=list)
    dy: list = field(default_factory=list)
    dx: list = field(default_factory=list)
    dw: list = field(default_factory=list)
    db: list = field(default_factory=list)
    dz: object = None
    losses: object = None
    saturated: list = field(default_factory=list)


class SlowNetwork:
    """Trains batch by batch; ``weights`` and ``biases`` are object arrays of masters."""

    def __init__(self, network, parameters):
        self.network, self.step = network, 0
        self.weights = [w.astype(object) for w in parameters.weights]
        self.biases = [None if b is None else b.astype(object) for b in parameters.biases]

    def train_batch(self, images, labels, rate=None):
        network = self.network
        trace = SlowTrace(saturated=[dict.fromkeys(COUNTED, 0) for _ in network.stages])
        samples, logits = [], []
        for image in images:
            kept, x = [], image.astype(object)
            for stage in network.stages:
                x = x.reshape(stage.in_shape)
                result = self.forward(stage, x, trace.saturated[stage.index])
                kept.append((x, *result))
                x = result[1]
            samples.append(kept)
            logits.append(x.reshape(-1))
        trace.y = [np.stack([kept[s.index][2] for kept in samples]) for s in network.stages]
        trace.dz, trace.losses, _ = softmax_cross_entropy(
            np.array(logits).astype(np.int64), labels, network.loss
        )
        self.backward(samples, trace)
        self.update(trace, network.update.rate if rate is None else rate)
        return trace

    def multiplied(self, stage):
        return self.weights[stage.index] // 2 ** (stage.master.width - stage.w.width)

    def forward(self, stage, x, counts):
        """(after requantise, after ReLU, after pool) of one sample."""
        w, bias = self.multiplied(stage), self.biases[stage.index]
        conv = empty(*stage.conv_shape)
        for (oy, ox), n in itertools.product(pixels(stage.window), range(stage.out_channels)):
            first = n // stage.N * stage.cin
            acc = 0 if bias is None else bias[n] * 2 ** (stage.acc_frac - stage.bias.frac)
            for ky, kx, iy, ix in seen(stage.window, oy, ox):
                for c in range(stage.cin):
                    acc += x[iy, ix, first + c] * w[ky, kx, c, n]
            value = rounded(acc, stage.acc_frac - stage.y.frac)
            conv[oy, ox, n] = clipped(value, stage.y)
            counts["y"] += conv[oy, ox, n] != value
        active = np.vectorize(lambda value: activated(value, stage)[0], otypes=[object])(conv)
        y = active
        if stage.pool:
            y = empty(*stage.out_shape)
            for (oy, ox), n in itertools.product(pixels(stage.pool), range(stage.out_channels)):
                y[oy, ox, n] = max(active[iy, ix, n] for _, _, iy, ix in seen(stage.pool, oy, ox))
        return conv, y, active

    def errors(self, stage, kept, error, counts):
        """The masked error of one sample as it enters the array."""
        _, conv, y, active = kept
        dy = error
        if stage.pool:
            dy = empty(*stage.conv_shape)
            for (oy, ox), n in itertools.product(pixels(stage.pool), range(stage.out_channels)):
                inside = [(iy, ix) for *_, iy, ix in seen(stage.pool, oy, ox)]
                won = next(at for at in inside if active[(*at, n)] == y[oy, ox, n])
                dy[(*won, n)] += error[oy, ox, n]
            for at in np.ndindex(dy.shape):
                value = dy[at]
                dy[at] = clipped(value, stage.dy)
                counts["dy"] += dy[at] != value
        for at in np.ndindex(dy.shape):
            slope = activated(conv[at], stage)[1]
            dy[at] = rounded(dy[at] * slope.numerator, slope.denominator.bit_length() - 1)
        return dy

    def data(self, stage, dy, counts):
        w = self.multiplied(stage)
        sums = empty(*stage.in_shape)
        for (oy, ox), n in itertools.product(pixels(stage.window), range(stage.out_channels)):
            first = n // stage.N * stage.cin
            for ky, kx, iy, ix in seen(stage.window, oy, ox):
                for c in range(stage.cin):
                    sums[iy, ix, first + c] += dy[oy, ox, n] * w[ky, kx, c, n]
        for at in np.ndindex(sums.shape):
            value = rounded(sums[at], stage.dy.frac + stage.w.frac - stage.dx.frac)
            sums[at] = clipped(value, stage.dx)
            counts["dx"] += sums[at] != value
        return sums

    def gradient(self, stage, x, dy, dw):
        for (oy, ox), n in itertools.product(pixels(stage.window), range(stage.out_channels)):
            first = n // stage.N * stage.cin
            for ky, kx, iy, ix in seen(stage.window, oy, ox):
                for c in range(stage.cin):
                    dw[ky, kx, c, n] += x[iy, ix, first + c] * dy[oy, ox, n]

    def backward(self, samples, trace):
        stages = self.network.stages
        for name in ("dy", "dx", "dw", "db"):
            setattr(trace, name, [None] * len(stages))
        errors = list(trace.dz.astype(object))
        for stage in reversed(stages):
            i, counts = stage.index, trace.saturated[stage.index]
            if stage.frozen and stage.dx is None:
                break
            shaped = [error.reshape(stage.out_shape) for error in errors]
            pairs = zip(samples, shaped, strict=True)
            dys = [self.errors(stage, kept[i], error, counts) for kept, error in pairs]
            trace.dy[i] = np.stack(dys)
            if not stage.frozen:
                trace.dw[i] = empty(*stage.weight_shape)
                for kept, dy in zip(samples, dys, strict=True):
                    self.gradient(stage, kept[i][0], dy, trace.dw[i])
                if stage.bias:
                    trace.db[i] = trace.dy[i].sum(axis=(0, 1, 2))
            if stage.dx is None:
                break
            errors = [self.data(stage, dy, counts) for dy in dys]
            trace.dx[i] = np.stack(errors)

    def update(self, trace, rate):
        rule = self.network.update
        for stage in self.network.stages:
            i, counts = stage.index, trace.saturated[stage.index]
            if trace.dw[i] is not None:
                shift = stage.x.frac + stage.dy.frac + rule.lr.frac - stage.master.frac
                done = self.descend(self.weights[i], trace.dw[i], rate, shift, stage.master, rule.rounding, i)
                self.weights[i], counts["master"], counts["zero_updates"] = done
            if trace.db[i] is not None:
                shift = stage.dy.frac + rule.lr.frac - stage.bias.frac
                done = self.descend(self.biases[i], trace.db[i], rate, shift, stage.bias)
                self.biases[i], counts["bias"], zeros = done
                counts["zero_updates"] += zeros
        self.step += 1

    def descend(self, old, gradient, rate, shift, q, rounding="nearest", tensor=0):
        """The new tensor, how many elements saturated, how many had a gradient but no step."""
        new, saturated, zeros = old.copy(), 0, 0
        for index, at in enumerate(np.ndindex(old.shape)):
            random = None
            if rounding == "stochastic" and shift > 0:
                h = hashed(self.network.update.seed, tensor, self.step, index)
                random = h >> (32 - shift) if shift <= 32 else h << (shift - 32)
            step = rounded(rate * gradient[at], shift, random)
            new[at] = clipped(old[at] - step, q)
            saturated += new[at] != old[at] - step
            zeros += gradient[at] != 0 and step == 0
        return new, saturated, zeros
