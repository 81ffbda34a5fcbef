"""Networks that `Suite.from_arrays` builds anew have their layers' own initial values, and all weights are trained."""

import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, weight_norm

import roarbench
from roarbench.api.network_source import make_network_with_source, write_network_structure
from roarbench.common.errors import CallerError
from roarbench.compute.networks import build_network
from tests.helpers.user_networks import arrays

TRAIN, TEST = arrays(12, 0), arrays(6, 1)
IMAGES = torch.from_numpy(TEST[0])


@pytest.fixture(autouse=True)
def seed_weights():
    """Draw weights whose logits do not look like probabilities, which a warning would name."""
    torch.manual_seed(0)


def make_convnet(*layers):
    return nn.Sequential(nn.Conv2d(3, 4, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


def make_with_source(model, builder="", retrained=True):
    """Return the network with its source, and the lines that are said."""
    said = []
    return make_network_with_source(model.eval(), IMAGES, builder, said.append, retrained), said


def build(made, seed):
    return build_network("network.network@0", 2, 3, 8, torch.Generator().manual_seed(seed), made.source)


class Norm(nn.Module):
    """A layer norm over channels, as ConvNeXt has it."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(4, 1, 1)), nn.Parameter(torch.zeros(4, 1, 1))

    def forward(self, x):
        return (x - x.mean(1, True)) / (x.var(1, keepdim=True) + 1e-6).sqrt() * self.weight + self.bias


class Temperature(nn.Module):
    def __init__(self, start=2.65, dtype=torch.float32):
        super().__init__()
        self.log = nn.Parameter(torch.tensor(start, dtype=dtype))

    def forward(self, x):
        return x * self.log.abs().exp()


class OwnReset(Temperature):
    def reset_parameters(self):
        nn.init.constant_(self.log, 2.65)


class PartlyReset(Norm):
    def reset_parameters(self):
        nn.init.zeros_(self.bias)


class NeedsArgument(Temperature):
    def reset_parameters(self, start):
        nn.init.constant_(self.log, start)


class DrawnOnce(nn.Conv2d):
    def reset_parameters(self):
        if hasattr(self, "drawn"):
            raise ValueError("drawn")
        super().reset_parameters()
        self.drawn = True


class RunningMean(nn.Module):
    """Subtracts a running mean, which training changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(x.mean((0, 2, 3)), alpha=0.1)
        return x - self.mean[:, None, None]


class ResetMean(RunningMean):
    def reset_parameters(self):
        self.mean.zero_()


class FixedScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(1, 2, 4))

    def forward(self, x):
        return x * self.scale[:, None, None]


def hold_weight_as_buffer():
    layer = nn.Conv2d(4, 4, 1)
    weight = layer.weight.data
    del layer.weight
    layer.register_buffer("weight", weight)
    return layer


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (
            Norm,
            r"no reset_parameters sets the initial value of '1\.weight' of Norm, '1\.bias' of Norm, so .*add reset_par",
        ),
        (
            Temperature,
            r"'1\.log' of Temperature, .*to Temperature, or pass network=, .* network=lambda: Sequential\(\.\.\.",
        ),
        (PartlyReset, r"no reset_parameters sets the initial value of '1\.weight' of PartlyReset, so"),
        (NeedsArgument, r"reset_parameters\(\) of NeedsArgument raised TypeError.*write it without arguments"),
        (lambda: nn.ParameterList([torch.ones(4)]), r"'1\.0' of ParameterList"),
        (RunningMean, r"training changes the buffer '1\.mean' of RunningMean, and no reset_parameters sets it"),
        (
            hold_weight_as_buffer,
            r"the buffer '1\.weight' of Conv2d is drawn at random, .* register it as nn\.Parameter",
        ),
        (lambda: parametrizations.weight_norm(nn.Conv2d(4, 4, 1)), "cannot be written .*; pass network=, a function"),
        (lambda: weight_norm(nn.Conv2d(4, 4, 1)), "from '1.weight_g' in each pass.*, or pass network="),
        (lambda: DrawnOnce(4, 4, 1), r"of DrawnOnce raised ValueError: drawn; .*pass network="),
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_unknown_initial_values_are_refused_before_retraining(layer, words):
    model = make_convnet(layer())
    if isinstance(model[1], nn.ParameterList):
        model[1].forward = torch.relu
    with pytest.raises(CallerError, match=words):
        make_with_source(model)


def test_networks_that_are_not_retrained_need_no_initial_values():
    made, _ = make_with_source(make_convnet(Temperature(), RunningMean()), retrained=False)
    assert build(made, 0)[1].log.shape == ()


@pytest.mark.parametrize("retrained", [True, False])
def test_weights_of_other_types_are_not_written_as_float32(retrained):
    with pytest.raises(CallerError, match=r"cannot be written \(a weight of shape \(\) is complex64\); pass network="):
        make_with_source(make_convnet(Temperature(dtype=torch.complex64)), retrained=retrained)


def make_complex_network():
    return make_convnet(Temperature(2j, torch.complex64))


def test_complex_weights_of_a_builder_stay_complex():
    made, _ = make_with_source(make_complex_network(), make_complex_network, retrained=False)
    assert build(made, 0)[1].log.item() == 2j


def test_own_reset_sets_initial_values():
    model = make_convnet(OwnReset(), ResetMean(), nn.BatchNorm2d(4))
    with torch.no_grad():
        model[1].log.fill_(9)
        model[2].mean.fill_(9)
    made, said = make_with_source(model)
    rebuilt = build(made, 0)
    assert rebuilt[1].log.item() == pytest.approx(2.65) and not said
    assert rebuilt[2].mean.tolist() == rebuilt[3].running_mean.tolist() == [0.0] * 4


def test_kept_buffers_are_named():
    _, said = make_with_source(make_convnet(FixedScale()))
    (line,) = said
    assert "keep the given network's values of the buffer '1.scale' of FixedScale" in line


def test_frozen_weights_are_trained_in_networks_built_anew():
    model = make_convnet(nn.BatchNorm2d(4))
    free = make_with_source(model)[0]
    model[0].requires_grad_(False)
    made, said = make_with_source(model)
    assert said == [
        "warning: 2 of 6 parameters of the network are frozen; retrained networks start from random weights, "
        "so all of their parameters are trained"
    ]
    assert all(weight.requires_grad for weight in build(made, 0).parameters())
    assert made.source == free.source and not model[0].weight.requires_grad
    assert make_with_source(model, retrained=False)[0].source != made.source, "as in earlier versions"


def test_suite_file_says_what_frozen_networks_start_from(tmp_path):
    model = make_convnet().eval()
    model[0].requires_grad_(False)
    suite = roarbench.Suite.from_arrays(model, TRAIN, TEST, protocols=("roar",), estimators=("grad",), store=tmp_path)
    text = Path(suite.name_or_file).read_text()
    assert text.startswith("# 2 of 4 parameters of the network are frozen; retrained networks start from")


class Composite(nn.Module):
    """A block whose own method starts its last layer at 0, after the layers' own methods."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.last.weight)

    def forward(self, x):
        return x + self.last(self.first(x).relu())


def test_method_of_own_block_runs_after_those_of_its_layers():
    model = make_convnet(Composite())
    nn.init.ones_(model[1].last.weight)
    rebuilt = build(make_with_source(model)[0], 0)
    assert not rebuilt[1].last.weight.any() and rebuilt[1].first.weight.any()


class HoldsList(nn.Module):
    """Draws the weights of a part that has no method of its own."""

    def __init__(self, draws=nn.init.ones_):
        super().__init__()
        self.scales, self.draws = nn.ParameterList([torch.ones(4, 1, 1)]), draws
        self.reset_parameters()

    def reset_parameters(self):
        for scale in self.scales:
            self.draws(scale)

    def forward(self, x):
        return x * self.scales[0]


def test_method_of_own_block_sets_weights_of_parts_without_a_method():
    assert build(make_with_source(make_convnet(HoldsList()))[0], 0)[1].scales[0].flatten().tolist() == [1.0] * 4
    with pytest.raises(CallerError, match=r"'1\.scales\.0' of ParameterList.*; add reset_parameters to HoldsList, or"):
        make_with_source(make_convnet(HoldsList(nn.Identity())))


def test_method_of_attention_runs_after_those_of_its_layers():
    layer = nn.TransformerEncoderLayer(64, 2, 16, batch_first=True)
    rebuilt = build(make_with_source(nn.Sequential(nn.Flatten(2), layer, nn.Flatten(), nn.Linear(192, 2)))[0], 0)
    assert not rebuilt[1].self_attn.out_proj.bias.any() and rebuilt[1].linear1.bias.any()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(192, 192), nn.Linear(192, 192), nn.Linear(192, 2)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.head(self.second(self.first(x.flatten(1)).relu()).relu())


@pytest.mark.parametrize(
    "make",
    [
        Tied,
        make_convnet,
        lambda: make_convnet(nn.GroupNorm(2, 4), nn.PReLU(4), nn.InstanceNorm2d(4, affine=True)),
        lambda: nn.Sequential(
            nn.Flatten(), nn.Unflatten(1, (8, 24)), nn.LSTM(24, 4, batch_first=True), Last(), nn.Linear(4, 2)
        ),
        lambda: nn.Sequential(
            nn.Flatten(2), nn.TransformerEncoderLayer(64, 2, 16, batch_first=True), nn.Flatten(), nn.Linear(192, 2)
        ),
    ],
)
def test_retrained_networks_start_from_seeded_weights_that_are_not_the_trained_ones(make):
    model = make()
    trained = deepcopy(model.state_dict())
    made, _ = make_with_source(model)
    one, again, other = (build(made, seed).state_dict() for seed in (1, 1, 2))
    for key, value in one.items():
        assert torch.equal(value, again[key]) and value.isfinite().all()
        if value.is_floating_point() and len(value.unique()) > 1:
            assert not torch.equal(value, other[key]) and not torch.equal(value, trained[key])
    tied = [
        {key for key, weight in m.named_parameters(remove_duplicate=False) if weight is first}
        for m in (model, build(made, 1))
        for first in [next(m.parameters())]
    ]
    assert tied[0] == tied[1]


class Last(nn.Module):
    def forward(self, output):
        return output[0][:, -1]


WIDTH = 4


def make_temperature_network(width=WIDTH):
    return nn.Sequential(
        nn.Conv2d(3, width, 3), Temperature(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2)
    )


BUILDERS = [lambda: make_temperature_network(WIDTH), lambda c, h, s: make_temperature_network()]  # on one line


@pytest.mark.parametrize("builder", [make_temperature_network, *BUILDERS])
def test_builder_sets_initial_values(builder):
    model = make_temperature_network()
    nn.init.constant_(model[1].log, 9.0)
    made, said = make_with_source(model, builder)
    assert build(made, 0)[1].log.item() == pytest.approx(2.65) and not said


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        (make_convnet(), "network is a Sequential, expected FILE.py:FUNCTION, or a function"),
        (
            lambda first, second: make_convnet(),
            r"network has 2 arguments without a default \(first, second\), expected",
        ),
        (lambda: make_convnet(nn.ReLU(), nn.Conv2d(4, 4, 1)), "the function network= builds a different network"),
        (lambda: make_convnet(STREAM), "the function network= cannot be written .*'STREAM'"),
    ],
)
def test_unusable_builders_are_refused(builder, words):
    with pytest.raises(CallerError, match=words):
        make_with_source(make_convnet(), builder)


STREAM = sys.stderr


class WithNames(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names = names

    def forward(self, x):
        return x


def test_structure_file_does_not_depend_on_order_of_sets():
    pairs = (((0, 0), (number, 0)) for number in range(1, 99))
    one, other = next(pair for pair in pairs if list({*pair}) != list({*pair[::-1]}))
    files = [write_network_structure(make_convnet(WithNames({*pair})), IMAGES) for pair in ((one, other), (other, one))]
    assert files[0] == files[1]
    names = {}
    exec(files[0][0], names)
    assert names["network"](2, 3, 8)[1].names == {one, other}


def test_structure_file_of_trained_network_is_as_in_earlier_versions():
    model = make_convnet(nn.BatchNorm2d(4))
    assert write_network_structure(model, IMAGES) == write_network_structure(model)
