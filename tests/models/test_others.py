"""Networks by the names of other libraries, and of a file: the same weights from the same seed, and clear refusals."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from roarbench.errors import CallerError
from roarbench.models.build import build
from roarbench.models.cost import network_cost
from tests.helpers.streamed import seeded

NET = """
from torch import nn

def build(classes, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))

def broken(classes, channels, size):
    return 1 / 0

def wrong(classes):
    return nn.Identity()

def text(classes, channels, size):
    return "a network"
"""

SLOW = """
import time
from torch import nn

def build(classes, channels, size):
    first = nn.Linear(4, 4)
    time.sleep(0.05)
    return nn.Sequential(first, nn.Linear(4, 4))
"""


def test_networks_of_torchvision_and_of_a_file():
    models = [build("torchvision:squeezenet1_1", 7, 3, 32, seeded(seed)) for seed in (0, 0, 1)]
    first, again, other = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, other)
    assert models[0].training
    assert models[0].eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    model = build("net.build@1a2b3c4d", 7, 3, 8, seeded(0), NET)
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 7)
    assert network_cost("net.build@1a2b3c4d", 7, 3, 8, NET).parameters == 7 * 3 * 64 + 7


def test_threads_share_no_chance_and_leave_the_caller_s_alone():
    def weights(seed):
        model = build("slow.build@1a2b3c4d", 2, 3, 8, seeded(seed), SLOW)
        return torch.cat([p.flatten() for p in model.parameters()])

    before = torch.get_rng_state()
    with ThreadPoolExecutor(3) as pool:
        at_once = list(pool.map(weights, range(3)))
    torch.testing.assert_close(at_once, [weights(seed) for seed in range(3)], rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "source", "channels", "said"),
    (
        ("torchvision:resnet19", "", 3, "no network of torchvision 'resnet19'; did you mean 'resnet1"),
        ("torchvision:resnet18", "", 1, "is made for colour images, these have 1 channel; write channels = 3"),
        ("torchvision:vit_b_16", "", 3, "cannot be made for images of 8 pixels"),
        ("timm:resnet18", "", 3, "timm:resnet18 needs timm, which is not installed; write pip install timm"),
        ("net.build@0", "import nowhere", 3, "net.py raised ModuleNotFoundError: .*; a network's file has to"),
        ("net.other@0", NET, 3, r"net.py has no function 'other'; write def other\(classes, channels, size\)"),
        ("net.wrong@0", NET, 3, r"wrong of net.py does not take three arguments; write def wrong\(classes, chan"),
        ("net.broken@0", NET, 3, r"broken\(7, 3, 8\) of net.py raised ZeroDivisionError"),
        ("net.text@0", NET, 3, "text of net.py returned str, expected a torch.nn.Module"),
    ),
)
def test_what_cannot_be_made_is_refused(name, source, channels, said):
    with pytest.raises(CallerError, match=said):
        build(name, 7, channels, 8, seeded(0), source)
