"""Tensors that are neither parameters nor buffers of a module, such as the attention that a forward pass keeps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from roarbench.api.user_networks import borrow_networks

_OF_EVERY_MODULE = vars(nn.Module()).keys()  # parameters, buffers, hooks and others


class _Attribute(NamedTuple):
    path: str  # as in `model.blocks[0].attention`, with dots
    module: nn.Module
    name: str
    value: Any
    tensors: list[Tensor]  # the value itself, or the items of a list, tuple or dict


@contextmanager
def restore_plain_tensors(model: object) -> Iterator[None]:
    """At the end, give the attributes in which forward passes stored new tensors their earlier values."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    before = [(module, dict(vars(module))) for module in modules]
    try:
        yield
    finally:
        for module, attributes in before:
            for name, value in list(vars(module).items()):
                if _list_tensors(value) and value is not attributes.get(name) and name not in _OF_EVERY_MODULE:
                    if name in attributes:
                        vars(module)[name] = attributes[name]
                    else:
                        vars(module).pop(name)


@contextmanager
def empty_tensors_of_forward(model: nn.Module, images: Tensor) -> Iterator[None]:
    """Empty the attributes in which every forward pass stores new tensors, and restore them at the end.

    A tensor becomes None; lists, tuples and dicts become empty. So the network has the same attributes before its first
    forward pass and after it. Tensors that a pass reads, or that a second pass does not replace, belong to the network.
    """
    with _empty_attributes(_find_tensors_of_forward(model, images)):
        yield


@contextmanager
def _empty_attributes(emptied: Sequence[_Attribute]) -> Iterator[None]:
    before = {found.module: dict(vars(found.module)) for found in emptied}
    try:
        for found in emptied:
            vars(found.module)[found.name] = None if isinstance(found.value, Tensor) else type(found.value)()
        yield
    finally:
        for module, attributes in before.items():
            vars(module).clear()
            vars(module).update(attributes)


def _find_tensors_of_forward(model: nn.Module, images: Tensor) -> list[_Attribute]:
    """Return the attributes whose tensors a second pass replaces unread; none if the network fails."""
    passes = []
    with suppress(Exception), _run_without_traces(model):
        for _ in range(2):
            model(images.clone())
            passes.append(list(_list_plain_tensors(model)))
    if len(passes) < 2:
        return []
    first = {(found.module, found.name): [*map(id, found.tensors)] for found in passes[0]}
    replaced = [found for found in passes[1] if first.get((found.module, found.name)) != [*map(id, found.tensors)]]
    if _accepts_images(model, images, replaced):
        return replaced
    return [found for found in replaced if _accepts_images(model, images, [found])]


def _accepts_images(model: nn.Module, images: Tensor, emptied: Sequence[_Attribute]) -> bool:
    """Return whether a forward pass works without the values of these attributes."""
    with suppress(Exception), _empty_attributes(emptied), _run_without_traces(model):
        model(images.clone())
        return True
    return False


@contextmanager
def _run_without_traces(model: nn.Module) -> Iterator[None]:
    with restore_plain_tensors(model), borrow_networks([model]), torch.no_grad():
        yield


def find_uncopyable_tensor(model: nn.Module) -> str:
    """Return the path of an attribute whose tensor has a graph, so that it cannot be copied; empty if there is none."""
    found = (one.path for one in _list_plain_tensors(model) if not all(tensor.is_leaf for tensor in one.tensors))
    return next(found, "")


def _list_plain_tensors(model: nn.Module) -> Iterator[_Attribute]:
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in _OF_EVERY_MODULE and (tensors := _list_tensors(value)):
                yield _Attribute(f"{prefix}.{name}".lstrip("."), module, name, value, tensors)


def _list_tensors(value: Any) -> list[Tensor]:
    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else [value]
    return [item for item in items if isinstance(item, Tensor)]
