"""Nonlinear operations with modified backward passes: guided backprop, and DeepLIFT's rescale rule.

captum's rescale rule has two faults: overlapping windows of a max-pool overwrite each other, and the rule applies only
to modules that are used once.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

Node = torch.autograd.graph.Node
Value = tuple[Node, int]  # a tensor of an autograd graph: the operation that made it, and the number of the output
_RELUS, _RELUS_IN_PLACE = {F.relu, torch.relu, Tensor.relu}, {torch.relu_, Tensor.relu_}
_HIDDEN = "ReLUs in a script or a custom autograd function"
# rectifiers in autograd graphs that are not ReLU; gates such as sigmoid and tanh are not rectifiers
_RECTIFIERS = {"Silu", "Gelu", "Mish", "Hardswish", "Elu", "Celu", "LeakyRelu", "PreluKernel", "RreluWithNoise"} | {
    *("Softplus", "Logaddexp", "LogSigmoid", "Softshrink", "Hardshrink", "Where", "Threshold")
}
# operations whose result for x and a function of x, number by number, is a rectifier, as in quick GELU and |x| + x
_JOINTS = {"Mul": "x * f(x)", "Maximum": "max(x, f(x))", "Minimum": "min(x, f(x))", "Add": "x + |x|", "Sub": "x - |x|"}
_ELEMENTWISE_NODES = {
    *("Abs", "Add", "Clone", "Div", "Erf", "Exp", "Hardsigmoid", "Log1P", "Mul", "Neg", "Pow", "Reciprocal", "Rsub"),
    *("Sigmoid", "Sign", "Sqrt", "Sub", "Tanh", "View", "_Relu"),
}
_GATES = {"Erf", "Exp", "Hardsigmoid", "Sigmoid", "Sign", "Tanh"}  # without one, a product is a power of x
_COMPARISONS = {"gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal"}
_POOLS = {F.max_pool2d, torch.max_pool2d}
_ELEMENTWISE = {
    *(F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_),
    *(F.relu6, F.hardtanh, F.hardtanh_, F.threshold, torch.threshold, torch.threshold_),
    *(torch.clamp, torch.clamp_, torch.clip, torch.clip_, torch.clamp_min, torch.clamp_min_, torch.clamp_max),
    *(Tensor.clamp, Tensor.clamp_, Tensor.clip, Tensor.clip_, Tensor.clamp_min, Tensor.clamp_min_, Tensor.clamp_max),
    *(F.leaky_relu, F.elu, F.softplus, torch.sigmoid, Tensor.sigmoid, torch.tanh, Tensor.tanh),
}
# if image and baseline differ by less, the derivative replaces the slope, which would divide by nearly 0 (as in captum)
_EQUAL = 1e-10


class Guided(TorchFunctionMode):
    """A mode for the forward pass; its ReLUs use guided backprop if `on` is True during the backward pass.

    One forward pass therefore serves the plain gradient and guided backprop. The mode handles `nn.ReLU`,
    `torch.nn.functional.relu`, `torch.relu` and the tensor method, in place or not, and no other rectifier.

    Attributes:
        on: Whether the backward pass of each ReLU passes only positive gradients; compiled code keeps the value that
            `on` had during the compilation.
        met_relu: Whether a ReLU was called.
        met_mask: Whether an activation's comparison with 0 met an activation, as in x * (x > 0); no graph shows this.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on = self.met_relu = self.met_mask = False

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function of torch, or `_Relu` instead of a ReLU."""
        if call in _RELUS or call in _RELUS_IN_PLACE:
            self.met_relu = True
            named = dict(zip(("input", "inplace"), arguments, strict=False)) | (options or {})
            in_place = call in _RELUS_IN_PLACE or bool(named.get("inplace"))
            return _Relu.apply(named["input"], in_place, self)  # type: ignore[no-untyped-call]
        result = call(*arguments, **(options or {}))
        # masks are comparisons with 0, and what is computed from them number by number, as mask.float()
        tensors = list_tensors((arguments, options))
        shapes = {tensor.shape for tensor in tensors if getattr(tensor, "is_mask", False)}
        self.met_mask |= any(tensor.requires_grad and tensor.shape in shapes for tensor in tensors)
        if _compares_activation_with_zero(call, arguments) or (isinstance(result, Tensor) and result.shape in shapes):
            result.is_mask = True
        return result

    def explain_why_unguided(self, logits: Tensor) -> str:
        """Return why guided backprop does not apply to the network with these logits; an empty string if it applies."""
        nodes = {node for node, _ in _list_origins((logits.grad_fn, 0))} if logits.grad_fn else set[Node]()
        names = sorted(set().union(*map(_name_if_unguided_rectifier, nodes)))
        unguided = names or ["comparisons with 0"] * self.met_mask
        if not self.met_relu and _HIDDEN not in unguided:
            return "needs ReLUs, but the network has none"
        return f"supports only ReLUs, but the network also has {', '.join(unguided)}" if unguided else ""


def list_tensors(values: Any) -> list[Tensor]:
    """Return the tensors in nested lists, tuples and dicts."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _compares_activation_with_zero(call: Any, arguments: Sequence[Any]) -> bool:
    if getattr(call, "__name__", "").strip("_") not in _COMPARISONS:
        return False
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    with_gradient = any(tensor.requires_grad and tensor.ndim > 1 for tensor in tensors)  # not a score of an image
    return with_gradient and len(tensors) == 1 and any(value == 0 for value in arguments if value is not tensors[0])


class _Relu(torch.autograd.Function):
    """A ReLU with torch's gradient; if `guide.on` is set, the backward pass passes only positive gradients."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, in_place: bool, guide: Guided) -> Tensor:
        if in_place:
            ctx.mark_dirty(x)
        y = x.relu_() if in_place else x.relu()
        ctx.save_for_backward(y)
        ctx.guide = guide  # type: ignore[attr-defined]
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (y,), (gradient,) = ctx.saved_tensors, gradients
        if ctx.guide.on:
            gradient = gradient.clamp(min=0)
        return torch.ops.aten.threshold_backward(gradient, y, 0), None, None


def list_inputs(node: Node) -> list[Value]:
    """Return the inputs of an operation of an autograd graph, as far as these have gradients."""
    return [(parent, number) for parent, number in node.next_functions if parent is not None]


def get_operation(node: Node) -> str:
    """Return the name of an operation of an autograd graph, without `Backward` and what follows."""
    return node.name().rpartition("::")[2].partition("Backward")[0]


def _name_if_unguided_rectifier(node: Node) -> set[str]:
    if BackwardCFunction in type(node).__mro__:  # an autograd function of the user, or a compiled network
        name = node.name().removesuffix("Backward")
        # the last one is linear (`image_gradient`)
        return set() if name in ("_Relu", "BackwardHookFunction", "_StridedConvolve") else {name}
    name, inputs = get_operation(node), list_inputs(node)
    if name == "Relu" or "DifferentiableGraph" in name:
        return {_HIDDEN}
    keys = ("_saved_min", "_saved_min_val", "_saved_max", "_saved_max_val")
    bounds = [value for key in keys if (value := getattr(node, key, None)) is not None]
    at_zero = any(bool(torch.as_tensor(bound == 0).all()) for bound in bounds)
    bounded = name in ("Clamp", "ClampMin", "ClampMax", "Hardtanh") and at_zero
    by_number = name in ("Maximum", "Minimum") and len(inputs) == 1
    if name in _JOINTS and len(set(inputs)) == 2 and _is_rectifier(name, inputs):
        return {_JOINTS[name]}
    return {name.lower()} if name in _RECTIFIERS or bounded or by_number else set()


def _is_rectifier(name: str, inputs: Sequence[Value]) -> bool:
    """Return whether an operation joins two functions of one tensor so that they are a rectifier."""
    one, other = (_list_origins(value, _ELEMENTWISE_NODES) for value in inputs)
    between = {get_operation(node) for node, _ in one ^ other}  # from the tensor to one of the functions
    if not one & other or between - _ELEMENTWISE_NODES:
        return False
    parents = {get_operation(node) for node, _ in inputs}
    if name == "Mul":  # sign(x) * sqrt(|x|) is odd
        return bool(between & _GATES) and "Sign" not in parents
    return name in ("Maximum", "Minimum") or "Abs" in parents


def _list_origins(value: Value, through: Collection[str] | None = None) -> set[Value]:
    """Return a tensor and those from which operations, `through` these or any, computed it, without weights."""
    found, front = set[Value](), [value]
    while front:
        value = front.pop()
        name = get_operation(value[0])
        if value not in found and "AccumulateGrad" not in name:
            found.add(value)
            front += list_inputs(value[0]) if through is None or name in through else []
    return found


class Rescaled(TorchFunctionMode):
    """A mode in which the derivative of a nonlinear operation is the slope between baseline and image (rescale rule).

    The second half of a batch of `count` inputs must contain the baselines of the images in the first half. The mode
    handles functions, modules and tensor methods, in place or not, even if a module is used several times. Operations
    without a rule, scripted networks, and tensors whose first axis does not go through the batch (weights, or
    activations with another axis first), use their ordinary derivative.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function of torch, or its version with the rescale rule if there is one."""
        keywords = dict(options or {})
        if call not in _ELEMENTWISE and call not in _POOLS:
            return call(*arguments, **keywords)
        if not arguments and "input" in keywords:
            arguments = (keywords.pop("input"),)
        x: Any = arguments[0] if arguments else None
        has_gradient = isinstance(x, Tensor) and x.requires_grad and x.is_floating_point()
        if has_gradient and x.ndim > 0 and len(x) > 0 and len(x) % self._count == 0:
            if call in _ELEMENTWISE:
                return _Elementwise.apply(x, call, arguments[1:], keywords)  # type: ignore[no-untyped-call]
            if not keywords.get("return_indices") and x.ndim == 4:
                return _MaxPool.apply(x, arguments[1:], keywords)  # type: ignore[no-untyped-call]
        return call(*arguments, **keywords)


class _RecordedShapes(TorchFunctionMode):
    """A mode that records the name and the input's shape of each call to which `Rescaled` may apply its rule."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if arguments and isinstance(arguments[0], Tensor) and (call in _ELEMENTWISE or call in _POOLS):
            self.calls.append((call.__name__.strip("_"), tuple(arguments[0].shape)))
        return call(*arguments, **(options or {}))


def find_call_without_batch_first(model: Callable[[Tensor], Tensor], images: Tensor) -> tuple[str, tuple[int, ...]]:
    """Return name and input shape of the first nonlinear operation whose input has the images along a later axis.

    The shape is that of two images. Without such an operation, the name is empty.
    """
    shapes = []
    for count in (1, 2):
        with torch.no_grad(), _RecordedShapes() as recorded:
            model(images[:1].repeat(count, 1, 1, 1))
        shapes.append(recorded.calls)
    for (_, single), (name, double) in zip(*shapes, strict=False):
        if single != double and single[:1] == double[:1]:
            return name, double
    return "", ()


class _Elementwise(torch.autograd.Function):
    """An elementwise function with the rescale rule."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, call: Callable[..., Tensor], arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            argument = leaf.clone()
            y = call(argument, *arguments, **keywords)
            (derivative,) = torch.autograd.grad(y.sum(), leaf)
        ctx.save_for_backward(_subtract_baseline_half(leaf.detach()), _subtract_baseline_half(y.detach()), derivative)
        if y is not argument:
            return y.detach()
        ctx.mark_dirty(x)
        return x.copy_(y.detach())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,), (dx, dy, derivative) = gradients, ctx.saved_tensors
        dx, dy = torch.cat([dx, dx]), torch.cat([dy, dy])
        return torch.where(dx.abs() < _EQUAL, gradient * derivative, gradient * dy / dx), None, None, None


class _MaxPool(torch.autograd.Function):
    """Max-pooling with the rescale rule; image and baseline may have their maxima at different positions.

    The change of a window's maximum is assigned to one position: the position of the image's maximum if the maximum is
    larger for the image than for the baseline, else the position of the baseline's maximum. At this position the input
    changes at least as much as the maximum does, so no slope exceeds 1. A position that lies in several windows gets
    the sum of their contributions.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, arguments: Sequence[Any], keywords: dict[str, Any]) -> Tensor:
        y, positions = F.max_pool2d(x, *arguments, **keywords | {"return_indices": True})
        dx, dy = _subtract_baseline_half(x).flatten(2), _subtract_baseline_half(y).flatten(2)
        image, baseline = positions.flatten(2).chunk(2)
        index = torch.where(dy > 0, image, baseline)
        change = dx.gather(2, index)
        ctx.save_for_backward(index, torch.where(change.abs() < _EQUAL, 1, dy / change))
        ctx.shape = x.shape
        return cast(Tensor, y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,), (index, slope) = gradients, ctx.saved_tensors
        back = gradient.new_zeros(ctx.shape).flatten(2)
        back.scatter_add_(2, index.repeat(2, 1, 1), gradient.flatten(2) * slope.repeat(2, 1, 1))
        return back.view(ctx.shape), None, None


def _subtract_baseline_half(images_and_baselines: Tensor) -> Tensor:
    image, baseline = images_and_baselines.chunk(2)
    return image - baseline
