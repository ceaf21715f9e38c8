"""``python -m benchmarks.timed_training WHO EPOCHS``: train digits once and print the seconds of the training
alone.

A process of its own, because the number of threads is fixed when numpy and PyTorch start.
"""

from __future__ import annotations

import json
import sys
import time

from hwgen.frontend.loader import load_source

from .command import EXAMPLES

__all__ = ["main"]


def main(who: str, epochs: int) -> dict[str, float]:
    """Seconds and accuracy of ``who`` ("hwgen" or "torch") after one unmeasured epoch to warm up."""
    source = load_source(EXAMPLES / "digits.py")
    if who == "hwgen":
        from hwgen.ref.trainer import evaluate, train

        train(source.network, source.parameters, source.dataset, epochs=1, seed=0)
        start = time.perf_counter()
        trained = train(source.network, source.parameters, source.dataset, epochs=epochs, seed=0)
        seconds = time.perf_counter() - start
        held_out = source.dataset.test_images, source.dataset.test_labels
        return {"seconds": seconds, "accuracy": evaluate(source.network, trained.parameters, *held_out)}
    from . import digits_torch

    digits_torch.train(source, digits_torch.DigitsNet(source), 1, 0)
    net = digits_torch.DigitsNet(source)
    start = time.perf_counter()
    digits_torch.train(source, net, epochs, 0)
    return {"seconds": time.perf_counter() - start, "accuracy": digits_torch.accuracy(source, net)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], int(sys.argv[2]))) + "\n")
