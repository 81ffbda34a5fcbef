"""The paths from the image to the logits in a network's autograd graph, and the tensors on these paths."""

import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from roarbench.common.errors import RunError
from roarbench.estimators.backward_rules import Value, get_operation, list_inputs, list_tensors

# names of operations in autograd graphs, without `Backward` and what follows
_VIEWS = {
    *("Alias", "Clone", "Expand", "Permute", "ReshapeAlias", "Squeeze", "ToCopy", "Transpose", "T", "UnsafeView"),
    *("Unsqueeze", "View", "BackwardHookFunction"),
}
# an average of positions, or a resized or padded tensor, has no new features, so the tensor before is the layer
_AVERAGES = {
    *("AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AvgPool1D", "AvgPool2D", "Mean", "MkldnnAdaptiveAvgPool2D", "Sum"),
    *("UpsampleBicubic2D", "UpsampleBilinear2D", "UpsampleLinear1D", "UpsampleNearest1D", "UpsampleNearest2D"),
    *("ConstantPadNd", "ReflectionPad1D", "ReflectionPad2D", "ReplicationPad1D", "ReplicationPad2D"),
}
# operations on single numbers, and normalisations; after these operations alone, an image is no layer
_POINTWISE = {
    *("Abs", "AccumulateGrad", "Add", "Clamp", "ClampMax", "ClampMin", "Div", "Elu", "Exp", "Gelu", "Hardswish"),
    *("Hardtanh", "LeakyRelu", "Lerp", "Log", "Mul", "Neg", "Pow", "Relu", "Rsqrt", "Rsub", "Sigmoid", "Silu", "Sqrt"),
    *("Sub", "Tanh", "AsStrided", "Cat", "ConstantPadNd", "Copy", "CopySlices", "Flip", "Index", "IndexSelect"),
    *("ReflectionPad2D", "ReplicationPad2D", "Roll", "Select", "Slice", "Split", "SplitWithSizes", "Stack", "Unbind"),
    *("CudnnBatchNorm", "MiopenBatchNorm", "NativeBatchNorm", "NativeLayerNorm"),
}
_LINEAR = {"Addmm", "Linear", "MkldnnLinear", "Mm"}
_PARTS = {"Select", "Slice", "Split", "SplitWithSizes", "Unbind"}
_HIDING = {  # operations whose inner operations are not in the graph, with what to do about them
    "CheckpointFunction": "write checkpoint(..., use_reentrant=False)",
    "CompiledFunction": "pass the network that is not compiled",
    "DifferentiableGraph": "pass the network itself, not its torch.jit program",
}
_IMAGES = 2  # images of the traced pass


class Place(NamedTuple):
    """The place of a tensor in a forward pass: the number of a call, and the tensor's number in the call."""

    call: int
    tensor: int


class Watch(TorchFunctionMode):
    """A mode that reports the tensors that functions of torch take and return.

    Args:
        report: Called with the place and the tensor.
        places: The numbers of tensors to report, by the number of the call; None for all.
        perform: Calls a function in place of the network.

    Attributes:
        calls: Number of functions that were called.
    """

    def __init__(
        self,
        report: Callable[[Place, Tensor], object] = lambda place, tensor: None,
        places: Mapping[int, Collection[int]] | None = None,
        perform: Callable[..., Any] = lambda call, arguments, options: call(*arguments, **options),
    ) -> None:
        super().__init__()
        self._report, self._places, self._perform = report, places, perform
        self.calls = 0

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        number, options = self.calls, options or {}
        self.calls += 1
        if self._places is not None and number not in self._places:
            return self._perform(call, arguments, options)
        taken = list_tensors((arguments, options))
        self._report_all(number, taken, 0)
        result = self._perform(call, arguments, options)
        self._report_all(number, list_tensors(result), len(taken))
        return result

    def _report_all(self, call: int, tensors: Sequence[Tensor], first: int) -> None:
        for number, tensor in enumerate(tensors, first):
            if self._places is None or number in self._places[call]:
                self._report(Place(call, number), tensor)


class TracedGraph:
    """The paths from the image to the logits in a network's autograd graph.

    Attributes:
        cuts: Tensors through which every path passes, from the logits to the image, both excluded.
        places: The place at which each tensor of the graph first appears.
        calls: Number of functions that the network called.
    """

    def __init__(self, model: nn.Module, images: Tensor) -> None:
        """Run a network, which is in eval mode, with two copies of the first image; `images` are (n, c, h, w)."""
        self.places: dict[Value, Place] = {}

        def record(place: Place, tensor: Tensor) -> None:
            if tensor.grad_fn is not None:
                self.places.setdefault((tensor.grad_fn, tensor.output_nr), place)

        inputs = images[:1].detach().repeat(_IMAGES, 1, 1, 1).requires_grad_()
        with torch.enable_grad(), Watch(record) as watch:
            logits = model(inputs)
        self.calls = watch.calls
        if logits.grad_fn is None:
            raise RunError("the network's logits have no gradient, so no layer can be found")
        self._image = torch.autograd.graph.get_gradient_edge(inputs).node
        self._output = logits  # torch up to 2.12 frees nodes of Python functions with the last tensor
        self._logits: Value = (logits.grad_fn, logits.output_nr)
        # paths from the image to each tensor, in an order in which parents come first
        paths: dict[Value, int] = {}
        front = [self._logits]
        while front:
            value = front[-1]
            if missing := [parent for parent in list_inputs(value[0]) if parent not in paths]:
                front += missing
                continue
            paths[value] = int(value[0] is self._image) or sum(paths[parent] for parent in list_inputs(value[0]))
            front.pop()
        self._paths = paths
        to_logits = dict.fromkeys(self._paths, 0) | {self._logits: 1}
        for value in reversed(self._paths):
            for parent in list_inputs(value[0]):
                to_logits[parent] += to_logits[value]
        total = self._paths[self._logits]
        cuts = [value for value, count in self._paths.items() if total and count * to_logits[value] == total]
        self.cuts = cuts[-2:0:-1]

    def list_image_parents(self, value: Value) -> list[Value]:
        """Return the inputs of a tensor's operation that depend on the image."""
        return [parent for parent in list_inputs(value[0]) if self._paths[parent]]

    def mixes_between(self, start: Value | None, stop: Value) -> bool:
        """Return whether an operation combines several numbers between two tensors; `start` None is the image."""
        front, visited = [stop], {start}
        while front:
            if (value := front.pop()) not in visited:
                visited.add(value)
                if get_operation(value[0]) not in _VIEWS | _AVERAGES | _POINTWISE:
                    return True
                front += self.list_image_parents(value)
        return False

    def is_taken_apart(self, value: Value) -> bool:
        """Return whether a tensor is the output of a layer with weights of which operations take different parts."""
        # of an input that is not contiguous, torch adds the bias in an operation of its own
        made = self._skip(_VIEWS | {"Add"}, value)
        uses = [value]
        while len(uses) == 1:
            uses = [use for use in self._paths if uses[0] in list_inputs(use[0])]
        names = {get_operation(use[0]) for use in uses}
        return get_operation(made[0]) in _LINEAR | {"Convolution"} and len(uses) > 1 and names <= _PARTS

    def joins_results(self, value: Value) -> bool:
        """Return whether a tensor stacks tensors without positions, such as the logits of several crops."""
        made = self._skip(_VIEWS, value)
        parts = [self._skip(_VIEWS, part) for part in self.list_image_parents(made)]
        return get_operation(made[0]) in ("Stack", "Cat") and all(len(_get_shape(part)) < 3 for part in parts)

    def _skip(self, operations: Collection[str], value: Value) -> Value:
        """Return the tensor from which operations of one input made this tensor."""
        while get_operation(value[0]) in operations and len(parents := self.list_image_parents(value)) == 1:
            (value,) = parents
        return value

    def count_layers_after(self, start: Value) -> int:
        """Count the layers with weights and several positions on the longest path from a cut to the logits."""
        counts = {start: 0}
        for value in self._paths:  # parents come first
            if before := [counts[parent] for parent in list_inputs(value[0]) if parent in counts]:
                name = get_operation(value[0])
                shape = _get_shape(value)  # of a linear layer's output: (images * positions, features)
                has_positions = name in _LINEAR and _IMAGES not in shape
                counts[value] = max(before) + (math.prod(shape[2:]) > 1 if name == "Convolution" else has_positions)
        return counts[self._logits]

    def describe_hidden(self, start: Value | None = None) -> str:
        """Name an operation after a cut, or on any path, that hides operations; empty if there is none."""
        after = {start}
        for value in self._paths:  # parents come first
            if start is None or any(parent in after for parent in list_inputs(value[0])):
                after.add(value)
                if (name := get_operation(value[0])) in _HIDING:
                    return f"{name} hides the last layers; {_HIDING[name]}"
        return ""

    def skip_averages(self, value: Value, sources: Container[Value]) -> Value:
        """Return the source of which a tensor is an average, or a resized or padded copy; else the tensor."""
        source, averaged = value, False
        while (name := get_operation(value[0])) in _VIEWS | _AVERAGES and len(self.list_image_parents(value)) == 1:
            (before,) = self.list_image_parents(value)
            if "Pad" in name and math.prod(_get_shape(before)) > math.prod(_get_shape(value)):
                break  # padding by negative numbers is a crop
            averaged |= name in _AVERAGES
            value = before
            if averaged and value in sources:
                source, averaged = value, False
        return source


def _get_shape(value: Value) -> tuple[int, ...]:
    return tuple(map(int, value[0]._input_metadata[value[1]].shape))
