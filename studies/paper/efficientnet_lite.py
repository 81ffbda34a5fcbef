"""EfficientNet-Lite as Google's weights were converted: `pip install efficientnet-lite-pytorch`."""

from efficientnet_lite_pytorch import EfficientNet
from torch import nn


def lite0(classes: int, channels: int, size: int) -> nn.Module:
    """Build the smallest network."""
    return EfficientNet.from_name("efficientnet-lite0")


def lite1(classes: int, channels: int, size: int) -> nn.Module:
    """Build the second network."""
    return EfficientNet.from_name("efficientnet-lite1")


def lite2(classes: int, channels: int, size: int) -> nn.Module:
    """Build the third network."""
    return EfficientNet.from_name("efficientnet-lite2")
