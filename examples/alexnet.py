"""AlexNet's five convolutions (two groups in the second, fourth and fifth), then one linear classifier of 10 classes.

hwgen plan examples/alexnet.py --cluster vc709*15

The network of Krizhevsky, Sutskever and Hinton (2012) without its dropout and local response normalisation. Its
convolutions fit images of 227×227 pixels without padding, although the paper says 224. alexnet_fc.py has the fully
connected layers. No images come with hwgen: without `data` they are random, so that losses mean nothing. Your own:

    def data(network):
        file = np.load("images.npz")  # images [N, 227, 227, 3] in [-1, 1], labels [N]
        return split(file["images"], file["labels"])  # from hwgen.data import split
"""

from hwgen import Model, nn

convolutions = [
    nn.Conv2d(3, 96, 11, stride=4),
    nn.ReLU(),
    nn.MaxPool2d(3, stride=2),
    nn.Conv2d(96, 256, 5, padding=2, groups=2),
    nn.ReLU(),
    nn.MaxPool2d(3, stride=2),
    nn.Conv2d(256, 384, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(384, 384, 3, padding=1, groups=2),
    nn.ReLU(),
    nn.Conv2d(384, 256, 3, padding=1, groups=2),
    nn.ReLU(),
    nn.MaxPool2d(3, stride=2),
]

model = Model(
    input=(227, 227, 3),
    layers=[*convolutions, nn.Flatten(), nn.Linear(6 * 6 * 256, 10)],
    loss=nn.SoftmaxCrossEntropy(),
    optimizer=nn.SGD(lr=0.01, batch=32),
    name="alexnet",
)
