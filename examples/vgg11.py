"""VGG-11's 8 convolutions, then one linear classifier of 10 classes.

hwgen plan examples/vgg11.py --cluster vc709*60

Data as told in vgg.py; vgg11_fc.py has the fully connected layers.
"""

from vgg import convolutions, vgg

from hwgen import nn

model = vgg("vgg11", [*convolutions((1, 1, 2, 2, 2)), nn.Linear(7 * 7 * 512, 10)])
