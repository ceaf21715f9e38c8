"""The convolutions of a network alone, which is what FPGA trainers of AlexNet and VGG are measured on."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ModelError
from ..ir.stage import Loss, Network

__all__ = ["convolutions"]


def convolutions(network: Network) -> Network:
    """``network`` without the layers behind its last map of more than one pixel. For plans only, not for gateware.

    The last map goes straight into the loss, which keeps its number of classes: one over all of the map's elements
    would be slower than the convolutions. Raises ModelError if there is no convolution.
    """
    count = max((stage.index + 1 for stage in network.stages if stage.in_shape[:2] != (1, 1)), default=0)
    if not count:
        raise ModelError(f"{network.name}: no convolution; give a network with nn.Conv2d")
    last = network.stages[count - 1]
    loss = Loss(network.loss.classes, last.y, last.dy)
    return replace(network, stages=network.stages[:count], loss=loss)
