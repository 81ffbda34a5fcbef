"""torchvision's ResNet-18 and ResNet-50, with ReLUs that captum can hook.

torchvision's blocks use one in-place ReLU several times and add the shortcut in place. The blocks here differ from
them in nothing else: names and weights of the layers are the same, so a checkpoint of torchvision's fits.
"""

from torch import Tensor, nn

from roarbench.models.torchvision_models import resnet


class BasicBlock(resnet.BasicBlock):  # type: ignore[misc, name-defined]
    """torchvision's basic block with a ReLU module for each use."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        del self.relu
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map float (n, c, h, w) to (n, planes, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: Tensor = self.relu2(y + shortcut)
        return out


class Bottleneck(resnet.Bottleneck):  # type: ignore[misc, name-defined]
    """torchvision's bottleneck block (stride in the 3x3 convolution) with a ReLU module for each use."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        del self.relu
        self.relu1, self.relu2, self.relu3 = nn.ReLU(), nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map float (n, c, h, w) to (n, 4 * planes, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        out: Tensor = self.relu3(y + shortcut)
        return out


def _resnet(block: type[nn.Module], layers: tuple[int, ...], classes: int, channels: int, size: int) -> nn.Module:
    """Build a ResNet of torchvision, its stem adapted to the size of the images.

    Above 64 pixels: torchvision's 7x7 stem with stride 2 and max-pooling. Above 32: without the max-pooling. Up to
    32: a 3x3 stem with stride 1, no max-pooling. So the last feature map has 3 to 7 positions a side up to 224 pixels.
    """
    model: nn.Module = resnet.ResNet(block, list(layers), num_classes=classes, zero_init_residual=True)
    kernel, stride = (3, 1) if size <= 32 else (7, 2)
    if (channels, kernel) != (3, 7):
        model.conv1 = nn.Conv2d(channels, 64, kernel, stride, padding=kernel // 2, bias=False)
    if size <= 64:
        model.maxpool = nn.Identity()
    model.relu = nn.ReLU()
    return model


def resnet18(classes: int, channels: int, size: int) -> nn.Module:
    """Build ResNet-18."""
    return _resnet(BasicBlock, (2, 2, 2, 2), classes, channels, size)


def resnet50(classes: int, channels: int, size: int) -> nn.Module:
    """Build ResNet-50."""
    return _resnet(Bottleneck, (3, 4, 6, 3), classes, channels, size)
