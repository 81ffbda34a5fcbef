"""The table of built-in networks, and the record of a network for images of one shape. Nothing here imports torch."""

from typing import NamedTuple


class NetworkSpec(NamedTuple):
    """A network for images of one shape: arguments of `compute.networks.build_network`."""

    name: str
    classes: int
    channels: int
    size: int  # height and width of the images in pixels
    source: str = ""  # text of the Python file that defines the network; empty without such a file


class NetworkRecord(NamedTuple):
    """An entry of the table of networks."""

    maker: str  # `file.function` in this folder; the function is called with (classes, channels, size)
    drawn: bool = False  # initial weights come from the code of torch or torchvision


MODELS = {
    "resnet8": NetworkRecord("networks.resnet8"),
    "resnet-quick": NetworkRecord("networks.resnet_quick"),
    "resnet-planted": NetworkRecord("networks.resnet_planted"),
    "resnet18": NetworkRecord("torchvision_networks.resnet18"),
    "resnet50": NetworkRecord("torchvision_networks.resnet50"),
    "vit-quick": NetworkRecord("torchvision_networks.small_vit", drawn=True),
    "convnext-quick": NetworkRecord("torchvision_networks.small_convnext", drawn=True),
    "mlp": NetworkRecord("networks.multilayer_perceptron", drawn=True),
}
