"""A GPU that holds no numbers: tensors that know their device, so that CUDA's branches run on any machine.

torch's fake tensors say that they lie on `cuda`, and refuse to be mixed with others. A torch without CUDA lacks what
indexing, `to` and the backward pass ask of it, so these are stood in for here.

It finds tensors on two devices, branches that raise, and waits: what makes the processor wait for the GPU. It does not
find wrong numbers, the order of streams, pinned memory used again too early, what compiling does, or any time taken.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import affine_grid, batch_norm, grid_sample
from torch.overrides import TorchFunctionMode

from roarbench.compute import gpu_training


class EagerGraph:
    log: list[str] = []  # captures and replays

    def __init__(self, step: Any, images: Any, labels: Any) -> None:
        self._step = step
        self.log.append("capture")

    def replay(self, images: Any, labels: Any) -> Any:
        self.log.append("replay")
        return self._step(images, labels)


def stand_in_for_graphs(monkeypatch: Any, graph: Any = None) -> list[str]:
    """Replace graphs and streams; return the log of captures, replays and steps without a graph."""
    log: list[str] = []

    def run_eagerly(step: Any, images: Any, labels: Any) -> Any:
        log.append("eager")
        return step(images, labels)

    monkeypatch.setattr(gpu_training, "_StepGraph", graph or type("Logged", (EagerGraph,), {"log": log}))
    monkeypatch.setattr(gpu_training, "_run_on_own_stream", run_eagerly)
    monkeypatch.setattr(gpu_training, "_CAPTURE_FAILURES", [])
    return log


GPU = torch.device("cuda")
aten = torch.ops.aten


class FakeGpu(TorchFunctionMode):
    """Stands in for what needs CUDA, and notes what a GPU would do."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []  # what the processor waited with until the GPU had done all that was launched
        self.memory = 80e9  # free bytes
        self.sent = 0  # copies to the GPU that nobody waited for
        self.channels_first = set[bool]()  # of the images that convolutions got: whether they lie so in memory

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if call is Tensor.__getitem__:
            return _indexed(*arguments)
        if call is Tensor.__setitem__:
            assert arguments[0].device.type == arguments[2].device.type
            return None
        if call is Tensor.contiguous:
            return aten.clone(arguments[0], memory_format=options.get("memory_format", torch.contiguous_format))
        if call is Tensor.pin_memory:
            pinned = arguments[0].clone()
            pinned.pinned = True
            return pinned
        if call is Tensor.to:
            return self._moved(*arguments, **options)
        if call is Tensor.cpu:
            return self._moved(*arguments, "cpu")
        if call is Tensor.item:
            self.waits.append("item")
            return 1.0
        if call is torch.conv2d and arguments[0].shape[1] == 3:
            self.channels_first.add(arguments[0].is_contiguous())
        if call is torch.tensor and options.get("device") is not None:
            return self._moved(torch.tensor(*arguments), **options)
        if call is Tensor.detach:
            return aten.detach(*arguments)
        if call is Tensor.copy_:  # broadcast into its place; both must be on one device
            aten.add(*arguments)
            return arguments[0]
        if call is affine_grid:
            n, _, height, width = arguments[1]
            return aten.new_empty(arguments[0], (n, height, width, 2))
        if call in (grid_sample, batch_norm):  # its shape is that of the images, and all must be in one place
            return sum((aten.sum(other) for other in arguments[1:5] if isinstance(other, Tensor)), arguments[0])
        return call(*arguments, **options)

    def _moved(self, tensor: Tensor, *wanted: Any, non_blocking: bool = False, **options: Any) -> Tensor:
        for one in wanted:
            if isinstance(one, Tensor):
                options |= {"device": one.device, "dtype": one.dtype}
            else:
                options["dtype" if isinstance(one, torch.dtype) else "device"] = one
        options["device"] = torch.device(options.get("device") or tensor.device)
        if options["device"].type == tensor.device.type and options.get("dtype", tensor.dtype) is tensor.dtype:
            return tensor
        if options["device"].type != tensor.device.type:
            free = non_blocking and tensor.device.type == "cpu" and getattr(tensor, "pinned", False)
            self.sent += free
            self.waits += [] if free else [f"copy to {options['device'].type}"]
        return _copied(tensor, **options)


def _copied(tensor: Tensor, **options: Any) -> Tensor:
    tensor.constant = None  # a fake tensor made of a number knows it, and would move it in earnest
    return aten._to_copy(tensor, **options)


def _indexed(tensor: Tensor, index: Any) -> Tensor:
    """`tensor[index]`, of the kinds of index that are used."""
    dim, places = 0, []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(part, int):
            tensor = aten.select(tensor, dim, part)
            continue
        elif isinstance(part, slice):
            tensor = aten.slice(tensor, dim, part.start, part.stop)
        else:
            places += [None] * (dim - len(places)) + [part]
        dim += 1
    return aten.index(tensor, places) if places else tensor


def _with_moved_weights(model: nn.Module, device: Any = None, memory_format: Any = None) -> nn.Module:
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, kept in table.items():
                if kept is not None:
                    form = memory_format if kept.ndim == 4 else None
                    moved = _copied(kept, device=device or kept.device, memory_format=form)
                    table[name] = nn.Parameter(moved, False) if isinstance(kept, nn.Parameter) else moved
    return model


@contextmanager
def fake_gpu() -> Iterator[FakeGpu]:
    """All tensors made here are fake; those on `GPU` lie on a GPU. Nothing is differentiated or compiled."""
    from roarbench.compute import gpu_training, prediction
    from roarbench.estimators import compute_maps

    gpu = FakeGpu()
    with ExitStack() as stack:
        for place, name, instead in (
            (nn.Module, "to", _with_moved_weights),
            (Tensor, "backward", lambda loss: None),  # gradients are torch's business: the optimiser has nothing to do
            (torch.autograd, "grad", lambda output, inputs, **options: (torch.zeros_like(inputs),)),
            (torch, "compile", lambda model, **options: model),
            (fake_tensor, "init_gpu_context", lambda device: None),  # a torch with CUDA would ask for a driver
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "mem_get_info", lambda device: (gpu.memory, gpu.memory)),
            (torch.cuda, "memory_reserved", lambda device: 0),
            (torch.cuda, "is_bf16_supported", lambda including_emulation=True: True),
            (torch, "enable_grad", torch.no_grad),
            (compute_maps, "prefetch", lambda items: items),  # the modes are of one thread
            (prediction, "_copy_to_device", lru_cache(prediction._copy_to_device.__wrapped__)),
            (gpu_training, "_run_on_own_stream", lambda step, *batch: step(*batch)),
            (gpu_training, "_StepGraph", EagerGraph),
        ):
            stack.enter_context(patch.object(place, name, instead))
        for mode in (torch.no_grad(), FakeTensorMode(), gpu):
            stack.enter_context(mode)
        yield gpu
