"""VGG-16 whole: 13 convolutions and three fully connected layers, 1,000 classes.

hwgen plan examples/vgg16_fc.py --cluster alveo_u280*83

Data as told in vgg.py.
"""

from vgg import convolutions, fully_connected, vgg

model = vgg("vgg16_fc", [*convolutions((2, 2, 3, 3, 3)), *fully_connected()])
