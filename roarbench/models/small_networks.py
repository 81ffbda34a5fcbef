"""Small residual networks of single basic blocks, for images of 16 to 64 pixels, and a perceptron for tables.

Every ReLU is a module of its own, not in place, and no sum is in place: captum's guided backprop and DeepLIFT hook each
ReLU and read the gradient at its output.
"""

from torch import Tensor, nn


class ResidualBlock(nn.Module):
    """Basic residual block (He et al. 2016, figure 2): two 3x3 convolutions beside the identity or a 1x1 projection.

    The last batch norm starts at gamma 0, so the block starts as its shortcut (Goyal et al. 2017, section 5.1).
    """

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.shortcut = nn.Identity() if inputs == width and stride == 1 else _projection(inputs, width, stride)
        nn.init.zeros_(self.norm2.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map float (n, inputs, h, w) to (n, width, h / stride, w / stride)."""
        y = self.relu1(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        out: Tensor = self.relu2(y + self.shortcut(x))
        return out


def _projection(inputs: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))


class SmallResNet(nn.Module):
    """A first convolution, blocks of given widths and strides, the mean over positions, a linear layer."""

    def __init__(self, stem: nn.Conv2d, classes: int, widths: tuple[int, ...], strides: tuple[int, ...]) -> None:
        super().__init__()
        self.conv = stem
        self.norm = nn.BatchNorm2d(stem.out_channels)
        self.relu = nn.ReLU()
        inputs = (stem.out_channels, *widths[:-1])
        self.blocks = nn.Sequential(*(ResidualBlock(*shape) for shape in zip(inputs, widths, strides, strict=True)))
        self.linear = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised images, float (n, channels, h, w), to logits (n, classes)."""
        x = self.blocks(self.relu(self.norm(self.conv(x))))
        places = x.permute(0, 2, 3, 1)  # the gradient of this mean lies channels last, as what comes before it does
        logits: Tensor = self.linear(places.mean(dim=(1, 2)))
        return logits


def multilayer_perceptron(classes: int, channels: int, size: int) -> nn.Module:
    """Build a network of two hidden layers of 64 ReLUs on all numbers of an image, in torch's own random weights."""
    width = 64
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(channels * size**2, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, classes),
    )


def resnet8(classes: int, channels: int, size: int) -> nn.Module:
    """Build three blocks of 16, 32 and 64 channels, for images of 28 or 32 pixels."""
    stem = nn.Conv2d(channels, 16, 3, stride=1, padding=1, bias=False)
    return SmallResNet(stem, classes, widths=(16, 32, 64), strides=(1, 2, 2))


def resnet_quick(classes: int, channels: int, size: int) -> nn.Module:
    """Build three blocks of 16, 32 and 32 channels, for images of 64 pixels."""
    stem = nn.Conv2d(channels, 8, 5, stride=2, padding=2, bias=False)
    return SmallResNet(stem, classes, widths=(16, 32, 32), strides=(2, 2, 1))


def resnet_planted(classes: int, channels: int, size: int) -> nn.Module:
    """Build two blocks of 16 and 32 channels, for images of 16 pixels."""
    stem = nn.Conv2d(channels, 16, 3, stride=1, padding=1, bias=False)
    return SmallResNet(stem, classes, widths=(16, 32), strides=(1, 2))
