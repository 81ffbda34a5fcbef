"""Find the layer that class activation maps explain.

The layer is defined by the function that a network computes, not by the names of its modules: the last tensor with
several positions through which every path from the image to the logits passes.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.errors import RunError
from roarbench.estimators.backward_rules import Value, list_tensors
from roarbench.estimators.grid_layout import (
    GridLayout,
    OutputTest,
    apply_with_shuffled_weights,
    apply_without_neighbours,
    find_layout,
    make_probes,
)
from roarbench.estimators.network_facts import recall_facts
from roarbench.estimators.traced_graph import Place, TracedGraph, Watch

_REMEDY = "leave class-activation maps out, or explain a network that sees each image once"
_UNSTEADY = f"the network calls other functions for other images, so it has no fixed layer; {_REMEDY}"
_NOTHING: Tensor = torch.empty(0)
_LATE = 12  # the layer is nearly always among this number of last cuts, so the other cuts are tested only if it is not
# an attention pool has one layer with positions after the tensor that it pools: keys, and beside these, values
_EARLY = 2


class FoundLayer(NamedTuple):
    """A layer of a network: the place in a forward pass where its output appears, and the axes of the output."""

    layout: GridLayout
    shape: tuple[int, ...]  # of the output, with 0 as the number of images
    block: nn.Module | None  # the module whose output this is; None if the next two fields give the place
    call: int = 0  # number of a call of a function of torch
    tensor: int = 0  # number of the tensor among the arguments and results of this call
    calls: int = 0  # number of all calls in a forward pass


class LayerOutput(NamedTuple):
    """The output of a layer for some images, and the logits, in one autograd graph."""

    tensor: Tensor  # as the network computes it
    layout: GridLayout
    logits: Tensor  # (n, classes)

    def arrange(self) -> Tensor:
        """Return the output as (n, channels, rows, columns), without a graph."""
        return self.layout.arrange(self.tensor.detach())

    def compute_gradient(self, targets: Tensor) -> Tensor:
        """Compute the gradient of the target logits by the output, (n, channels, rows, columns)."""
        (gradient,) = torch.autograd.grad(self.logits.gather(1, targets[:, None]).sum(), self.tensor)
        return self.layout.arrange(gradient)


def compute_layer_output(model: nn.Module, images: Tensor, layer: str) -> LayerOutput:
    """Run images through a network and return a layer's output, its axes and the logits.

    The first call for a network and a shape of images searches for the layer, in passes of 2, 11 and 11 images.

    Args:
        model: In eval mode.
        images: Float (n, c, h, w).
        layer: `last`, or `block1`, `block2`, … for the output of such a block (`find_blocks`).

    Raises:
        RunError: There is no such layer, or no axis of its output is the axis of the images.
    """
    if isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module  # the wrapper calls other functions in its first passes
    known = recall_facts(model)
    key = (type(model), layer, images.shape[1:], images.dtype, images.device)
    for _ in range(2):
        if key not in known:
            known[key] = find_layer(model, images, layer)
        if (output := _run(model, images, known[key])) is not None:
            return output
        del known[key]  # the network has changed since the search
    raise RunError(_UNSTEADY)


def _run(model: nn.Module, images: Tensor, layer: FoundLayer) -> LayerOutput | None:
    """Return the output of a layer, or None if the network does not make such a tensor."""
    kept: list[tuple[Tensor, int]] = []

    def keep(*called: Any) -> None:  # place and tensor, or module, inputs and output
        kept.extend((tensor, tensor._version) for tensor in list_tensors(called[-1])[:1])

    inputs = images.detach().clone().requires_grad_()
    block = layer.block
    watch = Watch(keep, {layer.call: [layer.tensor]}) if block is None else block.register_forward_hook(keep)
    with torch.enable_grad(), watch:
        logits: Tensor = model(inputs)
    if len(kept) != 1 or not kept[0][0].requires_grad or (isinstance(watch, Watch) and watch.calls != layer.calls):
        return None
    ((tensor, version),) = kept
    if tuple(tensor.movedim(layer.layout.images, 0).shape) != (len(images), *layer.shape):
        return None
    if tensor._version != version:
        seen = "the network overwrites the layer's output in place after use"
        raise RunError(f"{seen}; write x = x + y instead of x += y")
    return LayerOutput(tensor, layer.layout, logits)


def find_layer(model: nn.Module, images: Tensor, layer: str) -> FoundLayer:
    """Find a layer and the axes of its output; the arguments and errors are those of `compute_layer_output`."""
    if layer != "last":
        return _find_output_of_block(model, images, layer)
    graph = TracedGraph(model, images)
    places = {cut: graph.places[cut] for cut in graph.cuts if cut in graph.places}
    for tested in (list(places)[:_LATE], list(places)):
        found = _choose_last(graph, _test_cuts(model, images, {cut: places[cut] for cut in tested}, graph.calls))
        if isinstance(found, FoundLayer):
            return found
    nothing = "no tensor with several positions lies on every path from the image to the logits"
    reason = found or graph.describe_hidden() or _describe_repeated_module(model, images) or nothing
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        reason = "torch.jit hides the layers of the network; pass the network itself"
    raise RunError(f"no layer is suitable: {reason}; {_REMEDY}")


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the smallest proper submodules with at least two convolutions, in order: a ResNet's residual blocks."""
    blocks = [module for module in model.modules() if module is not model and count_convolutions(module) >= 2]
    return [block for block in blocks if not any(count_convolutions(child) >= 2 for child in block.children())]


def count_convolutions(module: nn.Module) -> int:
    return sum(isinstance(part, nn.Conv2d) for part in module.modules())


def _find_output_of_block(model: nn.Module, images: Tensor, layer: str) -> FoundLayer:
    """Find the axes of a block's output; RunError if there is no such block or no grid of positions."""
    blocks, number = find_blocks(model), int(layer.removeprefix("block"))
    if number > len(blocks):
        present = f"blocks 1 to {len(blocks)}" if blocks else "no block with two convolutions"
        raise RunError(f"layer {layer} does not exist: the network has {present}; use layer=last")
    block = blocks[number - 1]
    probes, bands = make_probes(images)
    tests: list[OutputTest] = []

    def test(module: nn.Module, inputs: Any, output: Any) -> None:
        found = [find_layout(tensor, bands, images.shape[2:]) for tensor in list_tensors(output)[:1]]
        tests.extend(found or [OutputTest(())])

    watch = Watch(places={}, perform=apply_without_neighbours)
    with block.register_forward_hook(test), torch.enable_grad(), _keep_nothing(), watch:
        model(probes.requires_grad_())
    if len(tests) != 1:
        raise RunError(f"layer {layer} runs {len(tests)} times per image, expected once; use layer=last")
    (test_of_block,) = tests
    if test_of_block.layout:
        return FoundLayer(test_of_block.layout, test_of_block.shape, block)
    several = f"holds {test_of_block.views} views of each image in one batch"
    problem = several if test_of_block.views > 1 else "has no grid of several positions, or is a gate"
    raise RunError(f"layer {layer} {problem}; use layer=last")


def _test_cuts(model: nn.Module, images: Tensor, places: Mapping[Value, Place], calls: int) -> dict[Value, OutputTest]:
    """Test tensors of a network in two passes of 11 images; a layout that depends on the weights is none."""
    probes, bands = make_probes(images)
    probes.requires_grad_()  # networks may call other functions without gradients
    numbers: dict[int, dict[int, Value]] = {}
    for value, place in places.items():
        numbers.setdefault(place.call, {})[place.tensor] = value
    passes: list[dict[Value, OutputTest]] = []

    def test(place: Place, tensor: Tensor) -> None:
        passes[-1][numbers[place.call][place.tensor]] = find_layout(tensor, bands, images.shape[2:])

    for perform in (apply_without_neighbours, apply_with_shuffled_weights):
        passes.append({})
        with torch.enable_grad(), _keep_nothing(), Watch(test, numbers, perform) as watch:
            model(probes)
        if watch.calls != calls:
            raise RunError(_UNSTEADY)
    tests, shuffled = passes
    return {
        cut: test if test.layout in (None, shuffled[cut].layout) else shuffled[cut]._replace(layout=None)
        for cut, test in tests.items()
    }


def _keep_nothing() -> torch.autograd.graph.saved_tensors_hooks:
    """Make a context in which passes keep no tensors for backward passes, to save memory."""

    def refuse(nothing: Tensor) -> Tensor:
        raise RunError(f"no layer is suitable: the network's forward computes a gradient; {_REMEDY}")

    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: _NOTHING, refuse)


def _choose_last(graph: TracedGraph, tests: Mapping[Value, OutputTest]) -> FoundLayer | str:
    """Return the last cut with a layout, or the reason why there is none."""
    cuts = [cut for cut in graph.cuts if cut in tests]
    grids = [cut for cut in cuts if tests[cut].layout and not graph.joins_results(cut)]
    layers = (cut for cut in grids if graph.mixes_between(None, cut))
    chosen = next(layers, None)
    later = cuts[: cuts.index(chosen)] if chosen else cuts
    tokens = next((cut for cut in later if tests[cut].has_positions and not tests[cut].layout), None)
    # tokens that are only copied and moved since the chosen layer are the chosen layer's own positions
    if tokens and (chosen is None or graph.mixes_between(chosen, tokens)):
        shape = ", ".join(map(str, ("n", *tests[tokens].shape)))
        return f"the positions of the last layer ({shape}) form no grid that follows the image, as with a class token"
    if chosen and graph.is_taken_apart(chosen):
        # keys and values of an attention pool: one joint layer is no later layer than two separate ones
        chosen = next((cut for cut in layers if graph.mixes_between(cut, chosen)), None)
    if chosen is None:
        views = max((tests[cut].views for cut in cuts), default=1)
        return f"the network joins {views} views of each image in one batch" if views > 1 else ""
    if hidden := graph.describe_hidden(chosen):
        return hidden
    if (count := graph.count_layers_after(chosen)) >= _EARLY:
        shape = ", ".join(map(str, ("n", *tests[chosen].shape)))
        return f"the last tensor on every path ({shape}) is early: {count} layers with positions follow it on branches"
    chosen = graph.skip_averages(chosen, set(grids))
    if not tests[chosen].is_whole:
        return "the layer's positions show a part of the image only, as after a crop in the network"
    layout = tests[chosen].layout
    assert layout is not None
    return FoundLayer(layout, tests[chosen].shape, None, *graph.places[chosen], graph.calls)


def _describe_repeated_module(model: nn.Module, images: Tensor) -> str:
    """Name the first layer with weights that runs several times per image; empty if there is none."""
    runs: Counter[str] = Counter()
    with ExitStack() as stack, torch.no_grad():
        for name, module in model.named_modules():
            has_weights = next(module.parameters(recurse=False), None) is not None
            if has_weights and not isinstance(module, torch.jit.ScriptModule):
                stack.enter_context(module.register_forward_hook(lambda *hooked, name=name: runs.update([name])))
        model(images[:1].repeat(2, 1, 1, 1))
    reason = "{} runs {} times per image, and the paths of these runs have no later layer in common"
    return next((reason.format(name, count) for name, count in runs.items() if count > 1), "")
