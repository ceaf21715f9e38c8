"""VGG-19's 16 convolutions, then one linear classifier of 10 classes.

hwgen plan examples/vgg19.py --cluster vc709*100

Data as told in vgg.py; vgg19_fc.py has the fully connected layers.
"""

from vgg import convolutions, vgg

from hwgen import nn

model = vgg("vgg19", [*convolutions((2, 2, 4, 4, 4)), nn.Linear(7 * 7 * 512, 10)])
