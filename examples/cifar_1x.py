"""The 1X CIFAR-10 network, 16C3-16C3-P-32C3-32C3-P-64C3-64C3-P-FC, on random images: for measuring speed."""

from hwgen import Model, nn
from hwgen.data import random_dataset

# (Pk, Pn) of the six convolutions: about 32,768 cycles an image each, with 899 multipliers in all.
ARRAYS = ((1, 16), (9, 8), (9, 4), (9, 8), (9, 4), (9, 8))
CHANNELS = (16, 16, 32, 32, 64, 64)

layers = []
before = 3
for number, (channels, array) in enumerate(zip(CHANNELS, ARRAYS, strict=True), start=1):
    layers += [nn.Conv2d(before, channels, 3, padding=1, array=array), nn.ReLU()]
    if number % 2 == 0:
        layers.append(nn.MaxPool2d(2))
    before = channels

model = Model(
    input=(32, 32, 3),
    layers=[*layers, nn.Flatten(), nn.Linear(1024, 10, array=(1, 1))],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.01, batch=8),
)


def data(network):
    """64 random images, 16 held out."""
    return random_dataset(network, 64)
