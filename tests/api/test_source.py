"""Submission files written from functions and classes."""

import asyncio
import functools
import importlib
import linecache
import math
import re
import sys
from dataclasses import InitVar, dataclass, field
from enum import Enum, Flag
from typing import NamedTuple

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, Occlusion, Saliency
from torch import nn
from torch.nn import functional as F

from roarbench.api.submission_source import make_submission
from roarbench.common.errors import CallerError
from roarbench.submissions.submission_calls import load_entry_point
from tests.helpers.processes import run_python
from tests.helpers.user_networks import doubled as double

SCALE = 3.0
NETWORK = nn.Linear(2, 2)
IMAGES = torch.arange(-9.0, 9.0).reshape(2, 1, 3, 3)
DRAWN = torch.rand((), generator=torch.Generator().manual_seed(0))  # the first number of the image's generator


def scale_positive_part(inputs):
    return SCALE * F.relu(inputs)


def explain_by_helper(model, inputs, targets):
    """Three times the positive part.

    And no more.
    """
    return scale_positive_part(inputs)


def with_factor(model, inputs, targets, factor=2.0):
    return factor * inputs


def explain_by_global_network(model, inputs, targets):
    return NETWORK(inputs)


def explain_by_shadowed_name(model, inputs, targets):
    scale_positive_part = SCALE * inputs  # a local variable that shadows the function
    return scale_positive_part + 0


def make_closure_over(factor):
    return lambda model, inputs, targets: factor * inputs


class Mode(Enum):
    MEAN = 1
    MAX = 2


class Factor(NamedTuple):
    value: float = 1.0

    def multiply(self, maps):
        return self.value * maps


@functools.cache
def draw_weights(size):
    return torch.rand(size, generator=torch.Generator().manual_seed(0))


@functools.lru_cache(maxsize=4)
def explain_by_kept_weights(model, inputs, targets):
    return inputs * draw_weights(3)


class Settings:
    sign = 1.0
    mode = Mode.MEAN
    scale = SCALE
    power = 2 * 0.5
    dtype = torch.float32  # cannot be written, but is the object of the source
    __private = (1, 2)
    activation = nn.Identity
    combine = scale_positive_part
    change = lambda self, maps: maps  # noqa: E731

    def weigh(self):
        return Settings.sign * Settings.scale * (2 if Settings.mode is Mode.MAX else 1)

    @property
    def nothing(self):
        return None


def weigh_by_seven(self):
    return 7.0


def explain_by_settings(model, inputs, targets):
    maps = Settings().weigh() * Settings.activation()(inputs) ** Settings.power
    maps = getattr(Settings(), "change_more", Settings().change)(Factor().multiply(maps))
    return (Settings.combine(maps) / SCALE - Settings.combine(-maps) / SCALE).to(Settings.dtype)


class Own:
    """Doubles."""

    factor = SCALE

    def __init__(self, model):
        self.model = model

    def attribute(self, inputs, target):
        return self.factor * inputs.detach()


def make_with_numpy_sum():
    sum = np.sum  # as after `from numpy import *`

    def explain(model, inputs, targets):
        return sum(inputs.numpy(), 1, keepdims=True) * explain.factor

    explain.factor = 2.0
    return explain


@torch.no_grad()
def explain_without_gradients(model, inputs, targets):
    return F.relu(double(inputs)) * (Side.LEFT | Side.RIGHT).value * SIDES.value  # torch's decorator has another F


class Side(Flag):
    LEFT = 1
    RIGHT = 2


SIDES = Side.LEFT | Side.RIGHT


def take_half(function):
    def inner(model, inputs, targets):
        return function(model, inputs, targets) / 2

    return inner


@take_half
def function(model, inputs, targets):
    return inputs


def share(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments) / arguments[1].shape[-1]

    return inner


@torch.no_grad()
@share
def explain_by_decorated(model, inputs, targets):
    return inputs


@share
def explain_wrapped_again(model, inputs, targets):
    return inputs


explain_wrapped_again = share(explain_wrapped_again)


def count_calls(start):
    def explain(model, inputs, targets):
        nonlocal start
        start += 1
        return start * inputs

    return explain


def explain_by_itself(model, inputs, targets, times=2):
    return explain_by_itself(model, inputs, targets, times - 1) if times else inputs


explain_by_old, explain_by_itself = explain_by_itself, function


@functools.singledispatch
def choose(value):
    return 1.0


@choose.register
def _(value: int):
    return 2.0


@dataclass
class Options:
    factor: float = 1.0
    power: float = field(default=2.0, init=False)


@dataclass
class Doubled:
    once: InitVar[float]
    twice: float = 0.0

    def __post_init__(self, once):
        self.twice = 2 * once


CHANGED = Options()
CHANGED.power = 3.0


class Word(str):
    def __len__(self):
        return 9


def make_closure_over_estimator(estimator):
    return lambda model, inputs, targets: estimator * inputs


CHOICES = {"absolute": torch.abs, "relu": nn.ReLU, "scales": [lambda maps: 2 * maps, lambda maps: 3 * maps]}


@dataclass
class Choice:
    layer: type = nn.ReLU


def explain_by_choices(model, inputs, targets, choice=Choice(nn.Identity)):  # noqa: B008
    two, three = CHOICES["scales"]
    return three(two(CHOICES["relu"]()(choice.layer()(inputs))))


BOUNDS, KIND, PLACE = (-math.inf, math.inf), torch.float64, torch.device("cpu")
ROUGHLY = functools.partial(torch.nn.functional.gelu, approximate="tanh")


def explain_by_values_of_torch(model, inputs, targets):
    return ROUGHLY(inputs.to(PLACE, KIND).clamp(*BOUNDS))


async def explain_later(model, inputs, targets, factor=SCALE):
    return factor * inputs


def explain_by_coroutine(model, inputs, targets):
    return asyncio.run(explain_later(model, inputs, targets))


def explain_by_layer(layer, model, inputs, targets, after=None):
    return after(layer()(inputs))


def explain_by_file(given, images):
    """Execute the submission file of a function, and explain images by it."""
    estimate = load_entry_point(make_submission("mine", given).source)
    model = nn.Sequential(nn.Flatten(), nn.Linear(images[0].numel(), 3))
    return estimate(model, images, torch.tensor([0, 2]), torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (explain_by_helper, SCALE * IMAGES.clamp(min=0)),
        (lambda model, inputs, targets: inputs.numpy() * math.pi, math.pi * IMAGES),
        (lambda model, inputs, targets, **kwargs: inputs[:, 0] * kwargs.get("factor", 2), 2 * IMAGES[:, 0]),
        # other names than Quantus': tensors are passed by position
        (lambda model, images, targets, **kwargs: images.clone() * len(kwargs or "ab"), 2 * IMAGES),
        (lambda model, **kwargs: Own(model), SCALE * IMAGES),
        (lambda **asked: asked["inputs"].copy(), IMAGES),
        (functools.partial(with_factor, factor=0.5), 0.5 * IMAGES),
        (explain_by_shadowed_name, SCALE * IMAGES),
        (explain_by_settings, SCALE * IMAGES),
        (explain_by_kept_weights, IMAGES * draw_weights(3)),
        (make_closure_over(-1.5), -1.5 * IMAGES),
        (Own, SCALE * IMAGES),
        (lambda model, images, targets, generator: images + torch.rand((), generator=generator), IMAGES + DRAWN),
        (make_with_numpy_sum(), 2 * IMAGES),
        (explain_by_choices, 6 * IMAGES.clamp(min=0)),
        (explain_by_values_of_torch, torch.nn.functional.gelu(IMAGES, approximate="tanh")),
        (functools.partial(explain_by_layer, nn.ReLU, after=torch.nn.functional.relu), IMAGES.clamp(min=0)),
        (explain_by_coroutine, SCALE * IMAGES),
        (explain_without_gradients, 18 * IMAGES.clamp(min=0)),
        (explain_by_decorated, IMAGES / 3),
    ],
)
def test_submission_file_matches_function(given, expected):
    torch.testing.assert_close(explain_by_file(given, IMAGES), expected, rtol=0, atol=1e-6)


TYPED_MODULE = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import xml.dom.minidom

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass
class Kept:
    maps: Tensor | None = None

    def double(self) -> Kept:
        doubled: Tensor = 2 * self.maps
        return Kept(doubled)


def explain(
    model: nn.Module,
    inputs: Tensor, targets: Tensor
) -> Tensor:
    number = xml.dom.minidom.parseString("<a>3</a>").firstChild.firstChild.data
    return int(number) * Kept(inputs).double().maps
"""


def test_names_for_type_checkers_and_dotted_imports_are_in_the_file(tmp_path, monkeypatch):
    """Nothing that this process has imported may hide that the file lacks an import."""
    (tmp_path / "typed_module.py").write_text(TYPED_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    source = make_submission("mine", importlib.import_module("typed_module").explain).source.decode()
    given = "estimator(None).attribute(torch.ones(1), None).item()"
    code = source.replace("import torch\n", "", 1) + f"\n\nimport torch\n\nprint({given})"
    assert run_python(code) == "6.0\n"
    assert "import xml.dom.minidom\n" in source and "import os.path" not in source


SUBMODULES = """
import numpy as np
import torch
import torch.nn.utils.prune
import torch.utils.flop_counter
from torch import nn


def explain(model, inputs, targets):
    nn.functional.relu(inputs), np.linalg.norm([1])
    module, counter = nn.utils.prune.identity(nn.Linear(2, 1), "weight"), torch.utils.flop_counter.FlopCounterMode
    return inputs * len([*module.buffers()]) * (counter.__name__ == "FlopCounterMode")
"""


def test_submodules_that_torch_does_not_load_are_in_the_file(tmp_path, monkeypatch):
    (tmp_path / "submodules.py").write_text(SUBMODULES)
    monkeypatch.syspath_prepend(tmp_path)
    source = make_submission("mine", importlib.import_module("submodules").explain).source.decode()
    assert run_python(f"{source}\n\nprint(estimator(None).attribute(torch.ones(1), None).item())") == "1.0\n"
    imports = {line for line in source.splitlines() if line.startswith("import ")}
    further = imports - {"import numpy as np", "import torch", "import torch.nn as nn"}  # more would rename stored rows
    assert further == {"import torch.nn.utils.prune", "import torch.utils.flop_counter"}


def test_make_submission_imports_captum_with_prefixed_name():
    assert explain_by_file(Saliency, IMAGES).shape == IMAGES.shape
    source = make_submission("ig", IntegratedGradients).source.decode()
    assert "from captum.attr._core.integrated_gradients import" in source
    made = make_submission("ig", explain_by_helper)
    assert (made.name, made.description) == ("own-ig", "Three times the positive part.")
    assert make_submission("My Method_2", explain_by_helper).name == "my-method-2"


def make_with_default(scale):
    def multiply(model, inputs, targets, scale=scale, *, sign=SCALE / 3):
        return sign * scale * inputs

    return multiply


def make_class_with_default(mode):
    class Multiplied:
        def __init__(self, model, mode=mode, change=F.relu):
            self.factor, self.change = mode.value, change

        def attribute(self, inputs, target):
            return self.factor * self.change(inputs)

    return Multiplied


LAMBDAS = {}
for scale in (2.0, -1.0):
    LAMBDAS[scale] = lambda model, inputs, targets, scale=scale: scale * inputs
TYPED = {one: lambda model, x, targets, µ=one, *, by=(one, "é"): µ * x * len(by) / 2 for one in (0.5, 2.0)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((make_with_default(factor), lambda x, factor=factor: factor * x) for factor in (4.0, 5.0)),
        *((make_class_with_default(mode), lambda x, by=mode.value: by * x.clamp(min=0)) for mode in Mode),
        *((LAMBDAS[factor], lambda x, factor=factor: factor * x) for factor in (2.0, -1.0)),
        *((TYPED[factor], lambda x, factor=factor: factor * x) for factor in TYPED),
    ],
)
def test_defaults_are_those_of_the_function_and_not_computed_anew(given, expected):
    """All functions of a loop have one source; the loop's variable has its last value."""
    estimate = load_entry_point(make_submission("mine", given).source)
    maps = estimate(nn.Identity(), IMAGES, torch.tensor([0, 1]), torch.Generator().manual_seed(0))
    torch.testing.assert_close(maps, expected(IMAGES))


def test_default_that_cannot_be_written_is_refused():
    with pytest.raises(CallerError, match="'the default scale' is a Tensor, which cannot be written to a file"):
        make_submission("mine", make_with_default(torch.ones(1)))


def test_submission_id_depends_on_used_global_values(monkeypatch):
    before = make_submission("mine", explain_by_helper).id
    assert make_submission("mine", explain_by_helper).id == before
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert make_submission("mine", explain_by_helper).id != before


@pytest.mark.parametrize(
    ("attribute", "changed", "expected"),
    [
        ("sign", -1.0, -SCALE * IMAGES),
        ("mode", Mode.MAX, 2 * SCALE * IMAGES),
        ("scale", 5.0, 5 * IMAGES),
        ("power", 2.0, SCALE * IMAGES**2),
        ("activation", nn.ReLU, SCALE * IMAGES.clamp(min=0)),
        ("combine", lambda maps: maps / 2, IMAGES),
        ("weigh", weigh_by_seven, 7 * IMAGES),
        ("change", lambda self, maps: 3 * maps, 3 * SCALE * IMAGES),
        ("change_more", lambda self, maps: 4 * maps, 4 * SCALE * IMAGES),
    ],
)
def test_submission_uses_class_attributes_changed_at_run_time(monkeypatch, attribute, changed, expected):
    before = make_submission("mine", explain_by_settings)
    torch.testing.assert_close(explain_by_file(explain_by_settings, IMAGES), SCALE * IMAGES, rtol=0, atol=0)
    # unchanged literals stay in the class alone, also those of named tuples
    assert not re.search(r"^(Settings\.sign|Factor\.\w+) = ", before.source.decode(), re.MULTILINE)
    monkeypatch.setattr(Settings, attribute, changed, raising=False)
    assert make_submission("mine", explain_by_settings).id != before.id
    torch.testing.assert_close(explain_by_file(explain_by_settings, IMAGES), expected, rtol=0, atol=0)


def test_make_submission_rejects_class_attribute_changed_to_unwritable_value(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Settings, "nothing", property(weigh_by_seven))
        with pytest.raises(CallerError, match="'Settings.nothing' was replaced after its class was defined"):
            make_submission("mine", explain_by_settings)
    monkeypatch.setattr(Settings, "sign", torch.tensor(-1.0))
    with pytest.raises(CallerError, match=r"'Settings.sign' is a Tensor, which cannot be written to a file"):
        make_submission("mine", explain_by_settings)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (explain_by_global_network, "'NETWORK' is a Linear, which cannot be written to a file; .* pass precomputed"),
        (make_closure_over(NETWORK), "'factor' is a Linear"),
        (functools.partial(with_factor, factor=NETWORK), "is a Linear"),
        (Occlusion, r"mine: Occlusion.attribute\(inputs, target\) is missing a required argument: 'sliding_window"),
        (lambda model, inputs: inputs, "2 arguments without a default; expected .model, inputs, targets."),
        (eval("lambda model, inputs, targets: inputs"), "cannot be found; write it as a function"),
        (make_closure_over([].append), "'factor' is a builtin_function_or_method, which cannot be written"),
        (Own(None), "is a Own, which cannot be written to a file"),
        (
            make_closure_over(CHANGED),
            "'factor' is a Options, whose arguments do not give its power, 3.0, again",
        ),
        (make_closure_over(Doubled(1.0)), "'factor' is a Doubled, whose arguments do not give its twice, 2.0, again"),
        (make_closure_over(Word("ab")), "'factor' is a Word, which cannot be written to a file"),
        (
            make_closure_over(choose),
            "'choose' is a functools.singledispatch, which cannot be written to a file",
        ),
        (function, "'function' has other decorators than its source; write all of them above `def`, your own with"),
        (explain_wrapped_again, "'explain_wrapped_again' has other decorators than its source"),
        (functools.wraps(double)(lambda *arguments: None), "'doubled' has other decorators than its source"),
        (functools.cache(explain_by_values_of_torch), "has other decorators than its source"),
        (count_calls(0), "'explain' cannot be written to a file: no binding .* 'start' found; keep no state"),
        (explain_by_old, "two different objects are called 'explain_by_itself'; rename one of them"),
        (explain_later, "mine returns no maps, because it contains `async` or `yield`; write a plain function"),
        (make_closure_over_estimator(2.0), "an object 'estimator', a name that the file of a row needs; rename it"),
    ],
)
def test_make_submission_rejects_unwritable_functions(given, words):
    with pytest.raises(CallerError, match=words):
        make_submission("mine", given)


FUNCTIONS = [lambda model, x, t: x, lambda model, x, t: x * 2, lambda model, x, t: (lambda y: 3 * y)(x)]  # on one line


@pytest.mark.parametrize(("number", "times"), [(0, 1), (1, 2), (2, 3)])
def test_lambdas_on_one_line_are_told_apart(number, times):
    names = {}
    exec(make_submission("mine", FUNCTIONS[number]).source, names)
    assert names["explained_by"](None, 5, None) == 5 * times


PAIRS = (((0, 0), (number, 0)) for number in range(1, 99))
FIRST, SECOND = next(pair for pair in PAIRS if list({*pair}) != list({*pair[::-1]}))


def test_sets_are_written_in_one_order():
    sources = []
    for names in ({FIRST, SECOND}, {SECOND, FIRST}):
        sources.append(make_submission("mine", lambda model, x, t: x * len(names)).source)  # noqa: B023
    assert sources[0] == sources[1] and b"(0, 0)" in sources[0]


def test_source_of_partial_does_not_depend_on_python():
    """Python 3.13 describes `functools.partial` in other words than 3.11, and an id is a hash of the file."""
    submission = make_submission("ig-local", functools.partial(IntegratedGradients, multiply_by_inputs=False))
    expected = "functools.partial(IntegratedGradients, multiply_by_inputs=False), called from Python"
    assert submission.description == expected


def test_source_is_of_the_function_that_was_imported(tmp_path, monkeypatch):
    """A file that was edited after its import has another function, which must not be stored as this one."""
    (tmp_path / "edited.py").write_text("def mine(model, x, t):\n    return (lambda y: 2 * y)(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # edits within a second have the same time
    module = importlib.import_module("edited")
    for _ in range(20):
        assert module.mine(None, 3, None) == 6
    source = make_submission("mine", module.mine).source
    for text in (
        "\ndef mine(model, x, t):\n    return 3 * x\n",
        "def mine(model, x, t):\n    return 3 * x\n",
        "def mine(:",
    ):
        (tmp_path / "edited.py").write_text(text)
        if text[0] == "\n":
            assert make_submission("mine", module.mine).source == source, "the lines are still known"
        linecache.clearcache()
        with pytest.raises(CallerError, match="'mine' differs from its source in edited.py, edited after its import"):
            make_submission("mine", module.mine)
    linecache.getlines(str(tmp_path / "edited.py"))
    (tmp_path / "edited.py").write_text("def mine(model, x, t):\n    return 44 * x\n")
    assert b"44 * x" in make_submission("mine", importlib.reload(module).mine).source


CELL = """
import torch

class Kept:
    factor = 3.0

@torch.no_grad()
def decorated(model, inputs, targets):
    return 2 * inputs

def explain(model, inputs, targets):
    return Kept.factor * inputs
"""


def test_decorated_function_of_a_cell_is_written_and_a_class_without_methods_refused(monkeypatch):
    monkeypatch.setitem(linecache.cache, "<cell>", (len(CELL), None, CELL.splitlines(keepends=True), "<cell>"))
    names = {"__name__": "__main__"}
    exec(compile(CELL, "<cell>", "exec"), names)
    torch.testing.assert_close(explain_by_file(names["decorated"], IMAGES), 2 * IMAGES)
    with pytest.raises(CallerError, match="source of 'Kept' cannot be found; write it as a class with a method, in"):
        make_submission("mine", names["explain"])


def test_script_that_was_edited_after_it_ran_is_refused(tmp_path):
    """IPython's `%run` and Spyder's `runfile` compile scripts themselves."""
    script, names = tmp_path / "script.py", {"__name__": "script"}
    script.write_text("def mine(model, x, t):\n    return 2 * x\n")
    exec(compile(script.read_text(), script, "exec"), names)
    script.write_text("def mine(model, x, t):\n    return 3 * x\n")
    with pytest.raises(CallerError, match="'mine' differs from its source in script.py, edited after its import"):
        make_submission("mine", names["mine"])
