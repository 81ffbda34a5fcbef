"""Copies of networks: with plain layers, batch norms folded, split after the affine stem, in bfloat16, or for threads.

Plain layers replace those whose weights are recomputed in every pass. Rules of layer-wise relevance propagation and
folded batch norms set `weight`, and the new value must last. Hooks (`torch.nn.utils.prune`, the old `weight_norm` and
`spectral_norm`), parametrizations, adapters such as LoRA and layers that compute weights in `forward` would overwrite
it.

The stem, which is the first convolution with its batch norm folded in, is affine, so it maps a straight path of images
to a straight path of outputs. Gradients at the points of the output path can therefore be summed before they are passed
back through the stem. The stem then needs one forward pass for each end of the path and one backward pass, instead of a
forward and a backward pass for every point.
"""

import copy
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node, Tracer
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.optim.swa_utils import AveragedModel
from torch.overrides import TorchFunctionMode

from roarbench.common.device_settings import is_out_of_memory
from roarbench.common.enums import Precision

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)
_LAYERS = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
_CONVOLUTION_CALLS, _LINEAR_CALLS = (F.conv2d, torch.conv2d), (F.linear, torch._C._nn.linear)
_CONVOLUTION_DEFAULTS = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
_PROBES, _PROBE_SIDE, _PROBE_SPREAD = 4, 8, 3.0  # number, side and standard deviation of test inputs of a layer
_TOLERANCE = 1e-4  # allowed difference of a layer's outputs, as a share of the largest output; rounding is below 1e-5


class _CopyWithoutGraphs(TorchFunctionMode):
    """A mode in which `deepcopy` copies computed tensors, such as a pruned weight after a pass, without their graph."""

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if call is Tensor.__deepcopy__ and not arguments[0].is_leaf:
            tensor, memo = arguments
            return memo.setdefault(id(tensor), tensor.detach().clone())
        return call(*arguments, **(options or {}))


def copy_with_plain_layers(model: nn.Module) -> nn.Module:
    """Copy a network in eval mode; layers that recompute their weights become plain layers where outputs are equal.

    A layer stays as it is if no plain layer of equal output is found. Wrappers of torch are replaced by the networks in
    them. The network itself is not changed.
    """
    with _CopyWithoutGraphs():
        copied = copy.deepcopy(model)
    for name, module in reversed(list(copied.named_modules(remove_duplicate=False))):  # inner wrappers first
        held = "module" if isinstance(module, _WRAPPERS) else "_orig_mod"  # of torch.compile
        inner: Any = module._modules.get(held)
        if inner is not None and not hasattr(inner, held):
            vars(inner)[held] = inner  # a network may call parts of a wrapped network, such as `self.part.module.head`
        if inner is not None and name:
            copied.set_submodule(name, inner)
        elif inner is not None:
            copied = inner
    with torch.no_grad(), torch.inference_mode(False):
        plain: dict[int, nn.Module | None] = {}  # by the id of the layer, which may have several names
        replaced: list[str] = []
        for name, module in list(copied.named_modules(remove_duplicate=False)):
            if name.startswith(tuple(f"{done}." for done in replaced)):
                continue  # part of an adapter
            if id(module) not in plain:
                plain[id(module)] = _make_plain(module)
            if (layer := plain[id(module)]) is not None and not name:
                return layer
            if layer is not None:
                copied.set_submodule(name, layer)
                replaced.append(name)
    return copied


def is_plain(layer: nn.Module) -> bool:
    """Return whether a convolution, linear layer or batch norm uses its own weights as they are, without hooks."""
    weights = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
    dense = all(type(tensor) in (Tensor, nn.Parameter) for tensor in weights)
    return type(layer) in _LAYERS and dense and not any(getattr(layer, name) for name in _HOOKS)


def _make_plain(layer: nn.Module) -> nn.Module | None:
    """Return a plain layer with the outputs of this layer; None if it is plain already, or if there is none."""
    base: Any = layer
    if is_adapter := callable(getattr(layer, "merge", None)) and callable(getattr(layer, "get_base_layer", None)):
        base = base.get_base_layer()
    is_known = isinstance(base, _LAYERS)
    if not is_known or (base is layer and is_plain(layer)):
        return None
    with suppress(Exception):  # the user's code may raise anything; the layer then stays as it is
        plain: Any
        if isinstance(base, nn.Linear):
            plain = nn.Linear(base.in_features, base.out_features, base.bias is not None, device="meta")
            shape: tuple[int, ...] = (_PROBES * _PROBE_SIDE**2, base.in_features)
        elif isinstance(base, nn.BatchNorm2d):
            plain = nn.BatchNorm2d(base.num_features, base.eps, affine=base.affine, device="meta")
            shape = (_PROBES, base.num_features, _PROBE_SIDE, _PROBE_SIDE)
        else:
            sizes = (base.in_channels, base.out_channels, base.kernel_size, base.stride, base.padding, base.dilation)
            plain = nn.Conv2d(*sizes, base.groups, base.bias is not None, base.padding_mode, device="meta")
            side = _PROBE_SIDE + max(d * (k - 1) for d, k in zip(base.dilation, base.kernel_size, strict=True))
            shape = (_PROBES, base.in_channels, side, side)
        drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        probe = _PROBE_SPREAD * drawn.to(_read_values(base, "weight"))
        expected = layer(probe)  # also runs hooks, so the attribute `weight` is up to date
        if is_adapter:  # PEFT's layers
            cast(Any, layer).merge()
        for name in ("weight", "bias"):
            if getattr(base, name) is not None:
                setattr(plain, name, nn.Parameter(_read_values(base, name)))
        if isinstance(base, nn.BatchNorm2d):
            plain.running_mean, plain.running_var = (_read_values(base, f"running_{name}") for name in ("mean", "var"))
            plain.num_batches_tracked = None
        if (plain.eval()(probe) - expected).abs().max() <= _TOLERANCE * expected.abs().max():
            return cast(nn.Module, plain)
    return None


def _read_values(layer: nn.Module, name: str) -> Tensor:
    """Return a copy of a weight, without the graph of its computation, and not quantised."""
    tensor: Tensor = getattr(layer, name).detach()
    return tensor.clone() if type(tensor) is Tensor else tensor.dequantize().clone()


@torch.no_grad()
def replace_calls_with_constant_weights(traced: GraphModule) -> None:
    """Replace calls of `F.conv2d` and `F.linear` with weights that do not depend on the images by layers, in place."""
    interpreter, constant = Interpreter(traced), set[Node]()  # nodes that do not depend on the images
    interpreter.env = {}

    def compute(value: Any) -> Any:
        if not isinstance(value, Node):
            return value
        for node in value.all_input_nodes:
            compute(node)
        if value not in interpreter.env:
            interpreter.env[value] = interpreter.run_node(value)
        return interpreter.env[value]

    for node in list(traced.graph.nodes):
        if node.op not in ("placeholder", "output") and constant.issuperset(node.all_input_nodes):
            constant.add(node)
        if node.op != "call_function" or node.target not in (*_CONVOLUTION_CALLS, *_LINEAR_CALLS):
            continue
        names = ("input", "weight", *_CONVOLUTION_DEFAULTS)
        given: Any = _CONVOLUTION_DEFAULTS | dict(zip(names, node.args, strict=False)) | node.kwargs
        if any(isinstance(given[name], Node) and given[name] not in constant for name in ("weight", "bias")):
            continue
        weight, bias = compute(given["weight"]), compute(given["bias"])
        layer: nn.Module
        if node.target in _LINEAR_CALLS:
            layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
        else:
            stride, padding, dilation, groups = (given[name] for name in names[3:])
            channels, size = (weight.shape[1] * groups, weight.shape[0]), tuple(weight.shape[2:])
            layer = nn.Conv2d(*channels, size, stride, padding, dilation, groups, bias is not None, device="meta")
        layer.weight = nn.Parameter(weight.detach().clone())
        layer.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        name = f"plain_{node.name}"
        traced.add_submodule(name, layer.eval())
        node.op, node.target, node.args, node.kwargs = "call_module", name, (given["input"],), {}
        traced.graph.eliminate_dead_code()


def separate_shared_weights(model: nn.Module) -> None:
    """Give each module its own copy of weights that several modules share, in place, and remove the modules' hooks."""
    seen = set[int]()
    for module in model.modules():
        for name in _HOOKS:
            getattr(module, name).clear()
        for name, weight in list(module.named_parameters(recurse=False)):
            if id(weight) in seen:
                setattr(module, name, nn.Parameter(weight.detach().clone()))
            seen.add(id(weight))


class Bf16Network(nn.Module):
    """A float32 network whose passes run in bfloat16; the logits and the gradients of images are float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.training = model.training
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, float32 (n, classes)."""
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = self.model(images)
        return logits.float()


class SplitStem(nn.Module):
    """A network in eval mode, split into an affine `stem` and the `rest`, which maps the stem's output to logits."""

    def __init__(self, stem: nn.Module, rest: nn.Module) -> None:
        super().__init__()
        self.stem, self.rest = stem, rest
        self.training = False  # both are in eval mode; a program of torch.export refuses `eval`

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (n, classes)."""
        logits: Tensor = self.rest(self.stem(images))
        return logits


def convert_precision(model: nn.Module, precision: Precision) -> nn.Module:
    """Return a network whose passes run in this precision; the stem of a `SplitStem` stays in float32."""
    if precision is Precision.FLOAT32:
        return model
    return SplitStem(model.stem, Bf16Network(model.rest)) if isinstance(model, SplitStem) else Bf16Network(model)


def split_after_first_convolution(network: GraphModule) -> nn.Module:
    """Split a traced network after its first convolution, or return the network if another operation uses the images.

    Batch norms should have been folded by `fold_batchnorm`. The traced network is modified.
    """
    images = next(node for node in network.graph.nodes if node.op == "placeholder")
    first, *other_users = images.users
    if other_users or first.op != "call_module":
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
    """Copy a network in eval mode and fold its batch norms into convolutions, which makes passes faster.

    Weights that hooks or parametrizations recompute become plain weights first. The copy's logits are equal up to
    rounding. ReLUs stay separate modules, as does a batch norm that does not directly follow a convolution, or follows
    one that is used twice. `benchmarks/peers/test_maps.py` compares the time of maps with and without folding.
    """
    return trace_and_fold_batchnorm(copy_with_plain_layers(model))


class _TracerOfImages(Tracer):
    """A tracer of a network that is called with images alone, so that its other arguments keep their defaults."""

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        return super().create_args_for_root(lambda network, images: root_fn(network, images), is_module)


def trace_and_fold_batchnorm(copied: nn.Module) -> GraphModule:
    """Trace a result of `copy_with_plain_layers` and fold its batch norms, for `fold_batchnorm`."""
    traced = GraphModule(copied, _TracerOfImages().trace(copied))
    output = traced.graph.output_node()
    (result,) = output.args
    if isinstance(result, Node) and "logits" in result.kwargs:
        output.args = (result.kwargs["logits"],)
        traced.graph.erase_node(result)
    replace_calls_with_constant_weights(traced)
    modules = dict(traced.named_modules())
    calls = Counter(node.target for node in traced.graph.nodes if node.op == "call_module")
    for node in traced.graph.nodes:
        if node.op != "call_module" or not isinstance(norm := modules[node.target], nn.BatchNorm2d):
            continue
        (before,) = node.args
        used_once = isinstance(before, Node) and before.op == "call_module" and len(before.users) == 1
        if not used_once or calls[before.target] > 1:
            continue
        if isinstance(convolution := modules[before.target], nn.Conv2d) and is_plain(convolution) and is_plain(norm):
            traced.set_submodule(before.target, fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    traced.eval()
    return traced


def copy_for_threads(model: nn.Module, images: Tensor) -> nn.Module | None:
    """Copy a network in eval mode for use in another thread; `images` are a few inputs, float (n, c, h, w).

    The result is None if the network is on a GPU, is compiled or has hooks, if copying fails, or if the copy still runs
    modules of the original, for example because an attribute of the network is a function that calls them.
    """
    if any(weight.device.type != "cpu" for weight in (*model.parameters(), *model.buffers())):
        return None
    for module in model.modules():
        compiled = isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod")
        if compiled or module._compiled_call_impl or any(getattr(module, name) for name in _HOOKS):
            return None
    called_originals: list[nn.Module] = []
    try:
        copied = copy_frozen_sharing_weights(model)
        with ExitStack() as hooks, torch.no_grad():
            for module in model.modules():
                hooks.enter_context(module.register_forward_hook(lambda module, *rest: called_originals.append(module)))
            copied(images.clone())
    except Exception as error:  # the user's network may raise anything
        if is_out_of_memory(error):
            raise
        return None
    return None if called_originals else copied


def copy_frozen_sharing_weights(model: nn.Module) -> nn.Module:
    """Copy a network's modules but share the weights in memory; the copy's parameters have requires_grad=False."""
    frozen = {id(tensor): nn.Parameter(tensor.detach(), requires_grad=False) for tensor in model.parameters()}
    return copy.deepcopy(model, frozen | {id(tensor): tensor for tensor in model.buffers()})
