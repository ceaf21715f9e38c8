"""What tests of the host's driver share: a build's first parameters and samples, losses of the reference, equality."""

import numpy as np

SAMPLES, BATCH = 8, 2


def first(build):
    """The build's first parameters, as the driver takes them."""
    with np.load(build.path / "parameters.npz") as file:
        return {name: file[name] for name in file.files}


def data(build, count=SAMPLES):
    return np.asarray(build.dataset.train_images)[:count], np.asarray(build.dataset.train_labels)[:count]


def losses_of(reference, images, labels, batch=BATCH):
    """Losses of all samples; the reference trains with them."""
    return [
        loss
        for k in range(0, len(images), batch)
        for loss in reference.train_batch(images[k : k + batch], labels[k : k + batch]).losses
    ]


def assert_equal(found, reference, stages):
    """Parameters by name, of a device or a checkpoint, are those of the reference."""
    for stage, weight, bias in zip(
        stages, reference.parameters.weights, reference.parameters.biases, strict=True
    ):
        assert np.array_equal(found[f"{stage.name}.weight"], weight), stage.name
        if bias is not None:
            assert np.array_equal(found[f"{stage.name}.bias"], bias), stage.name
