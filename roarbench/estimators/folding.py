"""Batch norms folded into the convolutions before them: in eval mode each is a fixed scale and offset per channel."""

import copy

from torch import nn
from torch.fx import GraphModule, Node, symbolic_trace
from torch.nn.utils.fusion import fuse_conv_bn_eval


def folded(model: nn.Module) -> GraphModule:
    """Return a copy of a network in eval mode without its batch norms: the same up to rounding, in fewer steps.

    Its ReLUs stay modules of their own, and so does a batch norm that follows no convolution.
    `benchmarks/peers/test_maps.py` compares the time of maps with and without.
    """
    traced = symbolic_trace(copy.deepcopy(model))
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
