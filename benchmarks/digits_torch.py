"""The network of examples/digits.py in float32 PyTorch: same first weights, batches, learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hwgen.data import epoch_order
from hwgen.frontend.loader import Source, load_source
from hwgen.ir.stage import Stage

from .command import EXAMPLES

__all__ = ["DigitsNet", "accuracy", "tensors", "train", "train_float"]


class DigitsNet(nn.Module):
    """Any chain of hwgen stages as PyTorch modules; images are [N, C, H, W]."""

    def __init__(self, source: Source):
        super().__init__()
        self.stages = source.network.stages
        weights = zip(self.stages, source.parameters.weights, source.parameters.biases, strict=True)
        self.layers = nn.ModuleList(_layer(stage, weight, bias) for stage, weight, bias in weights)

    def forward(self, x: Any) -> Any:
        """Logits [N, classes]."""
        for stage, layer in zip(self.stages, self.layers, strict=True):
            if isinstance(layer, nn.Linear):
                x = x.permute(0, 2, 3, 1).flatten(1)  # hwgen flattens channels last
            x = layer(x)
            if stage.activation is not None:  # ReLU, in digits
                x = functional.relu(x)
            if stage.pool is not None:
                x = functional.max_pool2d(x, stage.pool.kernel, stage.pool.stride)
        return x


def _layer(stage: Stage, weight: Any, bias: Any) -> Any:
    top, left, bottom, right = stage.window.pads
    assert (top, left) == (bottom, right), "PyTorch pads both sides alike"
    if stage.window.pixels_in == 1:
        layer: Any = nn.Linear(stage.in_channels, stage.out_channels, bias is not None)
    else:
        layer = nn.Conv2d(
            stage.in_channels, stage.out_channels, stage.window.kernel, stage.window.stride, (top, left),
            stage.window.dilation, stage.groups, bias is not None,
        )  # fmt: skip
    real = stage.master.to_float(weight).transpose(3, 2, 0, 1).reshape(layer.weight.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(real.copy()))
        if stage.bias is not None:
            layer.bias.copy_(torch.from_numpy(stage.bias.to_float(bias)))
    return layer


def tensors(source: Source, images: Any, labels: Any) -> tuple[Any, Any]:
    """Quantised images [N, H, W, C] as float32 [N, C, H, W], and labels."""
    real = source.network.input.to_float(images).transpose(0, 3, 1, 2).astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(real)), torch.from_numpy(labels)


def train(source: Source, net: DigitsNet, epochs: int, seed: int) -> None:
    """Train on full batches in hwgen's order, plain SGD on the mean loss."""
    images, labels = tensors(source, source.dataset.train_images, source.dataset.train_labels)
    batch = source.network.update.batch
    optimizer = torch.optim.SGD(net.parameters(), lr=source.network.update.learning_rate)
    for epoch in range(epochs):
        order = torch.from_numpy(epoch_order(len(images), seed, epoch))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            optimizer.zero_grad()
            functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()
            optimizer.step()


def accuracy(source: Source, net: DigitsNet) -> float:
    """Share of held-out images that are classified rightly."""
    images, labels = tensors(source, source.dataset.test_images, source.dataset.test_labels)
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).double().mean())


def train_float(seed: int, epochs: int) -> float:
    """Held-out accuracy of the digits network after ``epochs`` epochs in float32."""
    source = load_source(EXAMPLES / "digits.py", seed)
    net = DigitsNet(source)
    train(source, net, epochs, seed)
    return accuracy(source, net)
