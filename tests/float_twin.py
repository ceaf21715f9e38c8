"""The same training in float32 PyTorch: what integers are compared with in accuracy and speed."""

import numpy as np
import torch

from hwgen.ref.trainer import batches

__all__ = ["accuracy", "torch_digits", "torch_train"]


def torch_digits(network, parameters):
    """The digits network with first weights equal to the integers' real values."""
    layers = []
    for stage, weight, bias in zip(network.stages, parameters.weights, parameters.biases, strict=True):
        real = stage.master.to_float(weight)
        if stage.window.positions > 1:
            layer = torch.nn.Conv2d(stage.in_channels, stage.out_channels, 3, padding=1)
            values = real.transpose(3, 2, 0, 1)
            layers += [layer, torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        else:
            layer = torch.nn.Linear(stage.in_channels, stage.out_channels)
            height, width, channels = network.stages[stage.index - 1].out_shape
            values = real.reshape(height, width, channels, -1).transpose(3, 2, 0, 1)
            values = values.reshape(stage.out_channels, -1)
            layers += [torch.nn.Flatten(), layer]
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(np.ascontiguousarray(values)))
            layer.bias.copy_(torch.tensor(stage.bias.to_float(bias)))
    return torch.nn.Sequential(*layers)


def _tensors(images, labels):
    pictures = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32)
    return torch.tensor(pictures), torch.tensor(labels)


def torch_train(model, dataset, lr, batch, epochs, seed):
    """SGD on real images over the same batches; on one thread, which suits batches this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    images, labels = _tensors(dataset.train_images, dataset.train_labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for chosen in batches(len(images), batch, epochs, seed):
        optimizer.zero_grad()
        index = torch.from_numpy(chosen)
        torch.nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
        optimizer.step()
    torch.set_num_threads(threads)


def accuracy(model, dataset):
    """Share of held-out images that are right."""
    images, labels = _tensors(dataset.test_images, dataset.test_labels)
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).double().mean())
