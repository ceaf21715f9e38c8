"""VGG-11 whole: 8 convolutions and three fully connected layers, 1,000 classes.

hwgen plan examples/vgg11_fc.py --cluster alveo_u280*60

Data as told in vgg.py.
"""

from vgg import convolutions, fully_connected, vgg

model = vgg("vgg11_fc", [*convolutions((1, 1, 2, 2, 2)), *fully_connected()])
