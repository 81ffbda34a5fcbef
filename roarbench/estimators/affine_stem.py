"""The affine stem of a network: the layers before the first nonlinearity, which a path of images passes once.

Along a straight path its outputs lie on a straight line as well, and the gradients at them may be added up before they
go back through it: one pass forward for each end of the path and one back, instead of one for every point. Batch norms
are folded into the convolutions before them first.
"""

import copy

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, symbolic_trace
from torch.nn.utils.fusion import fuse_conv_bn_eval

from roarbench.enums import Precision


class InBf16(nn.Module):
    """A float32 network that computes in bfloat16, both ways; its logits and the gradients of images are float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.train(model.training)
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, float32 (n, classes)."""
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = self.model(images)
        return logits.float()


class SplitStem(nn.Module):
    """A network in eval mode in two parts.

    Attributes:
        stem: Affine in the images.
        rest: What makes logits of the stem's outputs.
    """

    def __init__(self, stem: nn.Module, rest: nn.Module) -> None:
        super().__init__()
        self.stem, self.rest = stem, rest
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (n, classes)."""
        logits: Tensor = self.rest(self.stem(images))
        return logits


def convert_precision(model: nn.Module, precision: Precision) -> nn.Module:
    """Return a network that computes in this precision; of a `SplitStem` one the rest does, and the stem in float32."""
    if precision is Precision.FLOAT32:
        return model
    return SplitStem(model.stem, InBf16(model.rest)) if isinstance(model, SplitStem) else InBf16(model)


def split_stem(network: GraphModule) -> nn.Module:
    """Return a traced network divided behind its first convolution; as it is where anything else meets the images.

    Its batch norms are folded, by `fold_batchnorm`; it is taken apart.
    """
    images = next(node for node in network.graph.nodes if node.op == "placeholder")
    first, *others = images.users
    if others or first.op != "call_module":
        return network
    stem = network.get_submodule(str(first.target))
    if not isinstance(stem, nn.Conv2d):
        return network
    first.replace_all_uses_with(images)
    network.graph.erase_node(first)
    network.delete_all_unused_submodules()
    network.recompile()
    return SplitStem(stem, network)


def fold_batchnorm(model: nn.Module) -> GraphModule:
    """Return a copy of a network in eval mode without its batch norms: the same up to rounding, in fewer steps.

    Its ReLUs stay modules of their own, and so does a batch norm that follows no convolution.
    `benchmarks/peers/test_maps.py` compares the time of maps with and without.
    """
    traced = symbolic_trace(copy.deepcopy(model))
    _return_logits(traced.graph)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op != "call_module" or not isinstance(norm := modules[node.target], nn.BatchNorm2d):
            continue
        (before,) = node.args
        alone = isinstance(before, Node) and before.op == "call_module" and len(before.users) == 1
        if alone and isinstance(convolution := modules[before.target], nn.Conv2d):
            traced.set_submodule(before.target, fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    traced.eval()
    return traced


def _return_logits(graph: Graph) -> None:
    """Make a traced network whose output is an object with `logits` return these alone."""
    output = graph.output_node()
    (made,) = output.args
    if isinstance(made, Node) and "logits" in made.kwargs:
        output.args = (made.kwargs["logits"],)
        graph.erase_node(made)
