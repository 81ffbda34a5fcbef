"""torchvision's networks built anew: weights by seed, all other than the trained ones, every weight reached."""

from copy import deepcopy
from functools import partial

import pytest
import torch

from roarbench.api.network_source import NetworkWithSource, make_network_with_source
from roarbench.common.errors import CallerError
from roarbench.compute.external_networks import import_torchvision_models
from roarbench.compute.networks import build_network

SIZES = {"inception_v3": 96}  # others get images of 64 pixels, too
SETTINGS = {
    "vit_b_32": {"image_size": 64},
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}
WITH_OWN_PARAMETERS = {"convnext_tiny", "swin_t", "swin_v2_t", "vit_b_32"}
NAMES = (  # one of each family, the small ones
    *("convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet0_5"),
    *("mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_0"),
    *("swin_t", "swin_v2_t", "vit_b_32"),
)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_torchvision_networks_built_anew_are_random_by_seed(name):
    size = SIZES.get(name, 64)
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    make = partial(import_torchvision_models().get_model, name, weights=None, num_classes=4, **SETTINGS.get(name, {}))
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for weight in model.parameters():  # as if trained
            weight.add_(torch.randn_like(weight), alpha=1e-3)
    said = []
    if name in WITH_OWN_PARAMETERS:
        with pytest.raises(CallerError, match="no reset_parameters sets the initial value of .*; .*pass network="):
            make_network_with_source(model, images, "", said.append)
        made = make_network_with_source(model, images, make, said.append)
    else:
        made = make_network_with_source(model, images, "", said.append)
    assert [line for line in said if "relative" not in line] == []
    check_weights(made, model, size)


def check_weights(made: NetworkWithSource, model: torch.nn.Module, size: int) -> None:
    trained = deepcopy(model.state_dict())
    one, again, other = (
        build_network("network.network@", 4, 3, size, torch.Generator().manual_seed(seed), made.source).state_dict()
        for seed in (1, 1, 2)
    )
    assert trained.keys() == one.keys()
    for key, weight in model.named_parameters():
        value = one[key]
        assert torch.equal(value, again[key]) and value.isfinite().all() and weight.shape == value.shape
        assert not torch.equal(value, trained[key])
        assert len(value.unique()) == 1 or not torch.equal(value, other[key]), key
