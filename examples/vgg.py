"""What the VGG networks of Simonyan and Zisserman (2014) have in common. No model: vgg11.py, vgg16_fc.py, ... are.

Without dropout. No images come with hwgen: without `data` they are random, so that losses mean nothing. Your own, in
any of these files:

    def data(network):
        file = np.load("images.npz")  # images [N, 224, 224, 3] in [-1, 1], labels [N]
        return split(file["images"], file["labels"])  # from hwgen.data import split
"""

from hwgen import Model, nn

CHANNELS = (64, 128, 256, 512, 512)


def convolutions(counts):
    """Five blocks of 3×3 convolutions, ``counts`` of them each, and a pool behind every block."""
    layers, before = [], 3
    for count, channels in zip(counts, CHANNELS, strict=True):
        for _ in range(count):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    return [*layers, nn.Flatten()]


def fully_connected():
    """The three layers behind the convolutions, 1,000 classes."""
    return [
        nn.Linear(7 * 7 * 512, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    ]


def vgg(name, layers):
    """The model of ``layers`` on images of 224×224 pixels."""
    return Model(
        input=(224, 224, 3),
        layers=layers,
        loss=nn.SoftmaxCrossEntropy(),
        optimizer=nn.SGD(lr=0.01, batch=32),
        name=name,
    )
