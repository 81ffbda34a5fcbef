"""Networks: seeded weights, torchvision as reference, exact outputs of published rows, own networks, and cost."""

import copy
import math
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from roarbench.common.device_settings import find_device
from roarbench.common.errors import CallerError
from roarbench.compute import torchvision_networks
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.external_networks import add_source_to_pickles
from roarbench.compute.network_checks import compute_checked_logits
from roarbench.compute.networks import (
    StridedProjection,
    build_network,
    count_network_cost,
    draw_zero_parameters,
    set_batch_norm_scales_to_one,
)
from roarbench.estimators.network_copies import fold_batchnorm
from tests.helpers.processes import ROOT, run_python
from tests.helpers.trainings import seeded


def test_set_batch_norm_scales_to_one_replaces_zero_scales():
    norm = nn.BatchNorm2d(2)
    nn.init.zeros_(norm.weight)
    assert set_batch_norm_scales_to_one(nn.Sequential(norm))[0].weight.tolist() == [1, 1]


def test_draw_zero_parameters_leaves_others():
    layers = nn.Sequential(nn.Linear(2, 100), nn.BatchNorm1d(100))
    weight = layers[0].weight.clone()
    drawn = draw_zero_parameters(layers, seeded(0))
    assert torch.equal(drawn[0].weight, weight) and (drawn[1].weight == 1).all()
    assert 0.08 < drawn[1].bias.std() < 0.12


@pytest.mark.parametrize("name", [name for name in sorted(MODELS) if not MODELS[name].drawn])
def test_initial_weights_follow_protocol_distributions(name):
    for module in build_network(name, 7, 3, 32, seeded(0)).modules():
        if isinstance(module, nn.Conv2d):
            expected = math.sqrt(2 / (module.out_channels * module.kernel_size[0] ** 2))
            spread = expected / math.sqrt(2 * module.weight.numel())  # standard deviation of a standard deviation
            assert abs(module.weight.std().item() - expected) < 5 * spread
            assert module.bias is None
        elif isinstance(module, nn.Linear):
            assert abs(module.weight.std().item() - 0.01) < 5 * 0.01 / math.sqrt(2 * module.weight.numel())
            assert not module.bias.any()
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.momentum, module.eps) == (0.1, 1e-5)
            assert not module.bias.any()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("resnet18", 224), ("resnet50", 96)])
def test_resnets_match_torchvision_logits(name, size):
    ours = build_network(name, 11, 3, size, seeded(0)).eval()
    nn.init.uniform_(ours.layer1[0].bn2.weight, generator=seeded(1))  # the block computes more than its shortcut
    theirs = getattr(torchvision_networks.resnet, name)(num_classes=11).eval()
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(1, 3, size, size, generator=seeded(2))
    torch.testing.assert_close(ours(images), theirs(images), rtol=0, atol=0)


@pytest.mark.parametrize(("channels", "side"), [(4, 16), (16, 33), (16, 64)])
def test_strided_projection_selects_the_positions_of_its_stride(channels, side):
    layer, generator = StridedProjection(channels, 8, 1, stride=(2, 3), bias=False), torch.Generator().manual_seed(0)
    nn.init.normal_(layer.weight, generator=generator)
    images = torch.randn(2, channels, side, side, generator=generator)
    columns = images[:, :, ::2, ::3].movedim(1, -1) @ layer.weight[:, :, 0, 0].T  # no convolution
    torch.testing.assert_close(layer(images), columns.movedim(-1, 1))


def test_vit_quick_patches_cover_image():
    for size in (28, 60):
        model = build_network("vit-quick", 7, 3, size, seeded(0))
        side = size // model.conv_proj.kernel_size[0]
        assert (model.encoder.pos_embedding.shape[1] - 1, side * model.conv_proj.kernel_size[0]) == (side**2, size)
    with pytest.raises(CallerError, match="vit-quick cannot divide 31 x 31 pixels into patches; write a size such as"):
        build_network("vit-quick", 7, 3, 31, seeded(0))


NET = """
wrong = lambda classes: "a network"
text = lambda classes, channels, size: "a network"
broken = lambda classes, channels, size: 1 / 0
leaves = lambda classes, channels, size: exit("done")
"""

LIKE_HUGGING_FACE = """
from dataclasses import dataclass
import torch
from torch import nn

@dataclass
class Output:
    loss: object
    logits: torch.Tensor

class Classifier(nn.Module):
    def __init__(self, classes, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4)
        self.linear = nn.Linear(4, classes)

    def plain(self, images):
        return self.linear(self.norm(self.conv(images)).relu().mean((2, 3)))

    def forward(self, images):
        return Output(None, self.plain(images))

def build(classes, channels, size):
    return Classifier(classes, channels)

def program(classes, channels, size):
    return torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, classes)))
"""

SLOW = """
import time
from torch import nn

def build(classes, channels, size):
    first = nn.Linear(32, 32)
    time.sleep(0.05)
    return nn.Sequential(first, nn.Linear(32, 32))
"""


@pytest.mark.parametrize(
    ("name", "source"), [("slow.build@1a2b3c4d", SLOW), ("resnet8", ""), ("torchvision:squeezenet1_1", "")]
)
def test_build_network_weights_depend_only_on_seed_across_threads(name, source):
    def weights(seed):
        model = build_network(name, 2, 3, 32, seeded(seed), source)
        return torch.cat([p.flatten() for p in model.parameters() if p.ndim > 1])

    before = torch.get_rng_state()
    with ThreadPoolExecutor(3) as pool:
        at_once = list(pool.map(weights, range(3)))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)  # moves the global generator on
    torch.testing.assert_close(at_once, [weights(seed) for seed in range(3)], rtol=0, atol=0)
    assert (at_once[0] != at_once[1]).float().mean() > 0.999
    parameters = build_network(name, 2, 3, 32, seeded(0), source).parameters()
    assert count_network_cost(name, 2, 3, 32, source).parameters == sum(values.numel() for values in parameters)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_networks_with_output_objects_return_their_logits():
    model, images = build_network("net.build@0", 5, 3, 8, seeded(0), LIKE_HUGGING_FACE).eval(), torch.rand(2, 3, 8, 8)
    expected = model.plain(images)
    for made in (model, copy.deepcopy(model)):
        assert torch.equal(made(images), expected)
        assert torch.equal(compute_checked_logits(made, images), expected)
    torch.testing.assert_close(fold_batchnorm(model)(images), expected)  # rounding of batch norms that are folded
    assert next(iter(model.state_dict())) == "conv.weight"
    program = build_network("net.program@0", 5, 3, 8, seeded(0), LIKE_HUGGING_FACE)  # which takes no hooks
    assert program(images).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "source", "channels", "said"),
    (
        ("torchvision:resnet19", "", 3, "no network of torchvision 'resnet19'; did you mean 'resnet1"),
        ("torchvision:resnet18", "", 1, "is made for colour images, but these have 1 channel; write channels = 3"),
        ("torchvision:vit_b_16", "", 3, "cannot be made for images of 8 pixels"),
        ("timm:resnet18", "", 3, "timm:resnet18 needs timm, which is not installed; run pip install timm"),
        ("net.build@0", "import nowhere", 3, "net.py raised ModuleNotFoundError: .*; the file must be self-contained"),
        ("net.other@0", NET, 3, "net.py has no function 'other'"),
        ("net.wrong@0", NET, 3, r"raised TypeError.*; write def wrong\(classes, chan"),
        ("net.broken@0", NET, 3, r"broken\(7, 3, 8\) of net.py raised ZeroDivisionError"),
        ("net.leaves@0", NET, 3, r"leaves\(7, 3, 8\) of net.py raised RuntimeError: sys.exit\('done'\) was called"),
        ("net.text@0", NET, 3, "text of net.py returned str, expected a torch.nn.Module"),
    ),
)
def test_build_network_rejects_invalid_definitions(name, source, channels, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # as where it is not installed
    with pytest.raises(CallerError, match=said):
        build_network(name, 7, channels, 8, seeded(0), source)


LIKE_TORCHVISION = """
import torch
torch.library.register_fake("torchvision::nms")(lambda dets, scores, threshold: dets)
"""
IMPORTS_TORCHVISION = """
from torch import nn
def build(classes, channels, size):
    layers = [nn.Flatten(), nn.Linear(channels * size**2, classes)]
    import torchvision
    return nn.Sequential(*layers)
"""
BUILDS = """
import sys, torch
from roarbench.compute.networks import build_network
weights = [build_network("net.build@0", 2, 3, 4, torch.Generator(), sys.argv[1])[1].weight for _ in range(2)]
print(torch.equal(*weights), "torchvision" in sys.modules)
"""


def test_network_file_may_import_torchvision_built_for_another_torch(tmp_path):
    (tmp_path / "torchvision.py").write_text(LIKE_TORCHVISION)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    assert run_python(BUILDS, IMPORTS_TORCHVISION, PYTHONPATH=paths) == "True True\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"),
    [("resnet-quick", 64), ("convnext-quick", 32), ("torchvision:swin_t", 32)],
)
def test_count_network_cost_matches_torch_flop_counter(name, size):
    """Swin calls functions for its projections and attention products."""
    model = build_network(name, 7, 3, size, torch.Generator()).eval()
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, size, size))
    assert count_network_cost(name, 7, 3, size).flops == counter.get_total_flops()


def test_count_network_cost_matches_manual_count_for_vit_quick():
    """vit-quick on 32 pixels: 64 patches of 4 pixels and a class token, width 64, 4 layers, 7 logits."""
    tokens, width, layers = 65, 64, 4
    attention = 8 * tokens * width**2 + 4 * tokens**2 * width  # projections; scores and sums over values
    mlp = 2 * 2 * tokens * width * 2 * width
    patches, head = 2 * 64 * (3 * 4 * 4) * width, 2 * width * 7
    assert count_network_cost("vit-quick", 7, 3, 32).flops == layers * (attention + mlp) + patches + head


@pytest.mark.parametrize("name", ["resnet-quick", "resnet-planted", "vit-quick", "mlp"])
def test_networks_can_be_copied_pickled_and_saved_whole(name, tmp_path):
    model = build_network(name, 3, 3, 32, torch.Generator().manual_seed(0)).eval()
    images, path = torch.randn(2, 3, 32, 32), tmp_path / "network.pt"
    torch.save(model, path)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(path, weights_only=False)]
    other = build_network(name, 3, 3, 32, torch.Generator().manual_seed(1)).eval()
    other.load_state_dict(model.state_dict())
    for made in (*copies, other):
        assert [type(part) for part in made.modules()] == [type(part) for part in model.modules()]
        assert torch.equal(made(images), model(images))


OWN_CLASSES = """
from abc import ABC
from dataclasses import dataclass
from torch import nn

@dataclass
class Config:
    width: int = 4

def doubled(x):
    return 2 * x

class Net(nn.Module):
    def __init__(self, classes, config):
        super().__init__()
        self.config, self.change, self.head = config, doubled, nn.Linear(3 * 4 * 4, classes)

    def forward(self, x):
        return self.head(self.change(x.flatten(1)))

class Part(ABC):
    pass

class Classifier(Part):
    pass

class OfParts(Classifier, Net):
    pass

def build(classes, channels, size):
    return Net(classes, Config())

def build_of_parts(classes, channels, size):
    return OfParts(classes, Config())

def build_nested(classes, channels, size):
    return nn.Sequential(Net(classes, Config()), nn.Identity())
"""


@pytest.mark.parametrize("function", ["build", "build_of_parts", "build_nested"])
def test_networks_of_a_file_can_be_copied_pickled_and_saved_whole(function, tmp_path):
    model = build_network(f"net.{function}@0", 2, 3, 4, torch.Generator().manual_seed(0), OWN_CLASSES).eval()
    kind, images, path = type(model), torch.randn(2, 3, 4, 4), tmp_path / "network.pt"
    assert add_source_to_pickles(model) is model and isinstance(model, kind) and type(model).__name__ == kind.__name__
    torch.save(model, path)
    copied = copy.deepcopy(model)
    assert type(copied) is type(model) and copied.training == model.training
    for made in (copied, pickle.loads(pickle.dumps(copied)), torch.load(path, weights_only=False)):
        assert torch.equal(made(images), model(images)) and str(made) == str(model)
        pickle.loads(pickle.dumps(made)).load_state_dict(model.state_dict())
    with torch.no_grad():
        next(copied.parameters()).zero_()
    assert next(model.parameters()).any()
    if function == "build":  # a process that never ran the file
        program = "import sys, torch; print(torch.load(sys.argv[1], weights_only=False)(torch.ones(1, 3, 4, 4)).shape)"
        assert "[1, 2]" in run_python(program, path)


def test_network_of_buffers_alone_has_a_device_and_a_cost():
    """Times are divided by the cost; distances to stored images have no formula, and no parameter has a device."""
    source = """
import torch
class Distances(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("stored", torch.eye(2, 12))
    def forward(self, images):
        return -(images.flatten(1)[:, None] - self.stored).abs().sum(2)
def network(classes, channels, size):
    return Distances()
"""
    model = build_network("own.network@0", 2, 3, 2, torch.Generator(), source)
    assert find_device(model) == torch.device("cpu")
    assert count_network_cost("own.network@0", 2, 3, 2, source).flops == 1
