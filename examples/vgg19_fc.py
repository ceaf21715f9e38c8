"""VGG-19 whole: 16 convolutions and three fully connected layers, 1,000 classes.

hwgen plan examples/vgg19_fc.py --cluster alveo_u280*100

Data as told in vgg.py.
"""

from vgg import convolutions, fully_connected, vgg

model = vgg("vgg19_fc", [*convolutions((2, 2, 4, 4, 4)), *fully_connected()])
