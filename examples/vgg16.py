"""VGG-16's 13 convolutions, then one linear classifier of 10 classes.

hwgen plan examples/vgg16.py --cluster vc709*83

Data as told in vgg.py; vgg16_fc.py has the fully connected layers.
"""

from vgg import convolutions, vgg

from hwgen import nn

model = vgg("vgg16", [*convolutions((2, 2, 3, 3, 3)), nn.Linear(7 * 7 * 512, 10)])
