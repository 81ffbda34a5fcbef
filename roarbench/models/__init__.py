"""The table of networks. Nothing here imports torch."""

from typing import NamedTuple


class Network(NamedTuple):
    """One network.

    Attributes:
        maker: File of this folder and function that makes it of (classes, channels, size).
        drawn: Its weights are those that torch's or torchvision's code draws.
    """

    maker: str
    drawn: bool = False


MODELS = {
    "resnet8": Network("small.resnet8"),
    "resnet-quick": Network("small.resnet_quick"),
    "resnet-planted": Network("small.resnet_planted"),
    "resnet18": Network("large.resnet18"),
    "resnet50": Network("large.resnet50"),
    "vit-quick": Network("modern.small_vit", drawn=True),
    "convnext-quick": Network("modern.small_convnext", drawn=True),
    "mlp": Network("small.multilayer_perceptron", drawn=True),
}
