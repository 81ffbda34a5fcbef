"""Explainers of other packages leave networks, torch and other rows as they were; `make soak` runs installed packages.

docs/works-with.md has the versions. Each package is tried twice in one process, beside the built-in `grad`.
"""

import numpy as np
import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.compute.external_networks import import_torchvision_models

IMAGES = torch.randn(24, 3, 16, 16, generator=torch.Generator().manual_seed(1))
pytestmark = [
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
]


def make_networks():
    torch.manual_seed(0)
    return [make_network() for _ in range(3)]


def make_network():
    first = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
    return nn.Sequential(*first, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 3))


def use_captum(name, **options):
    def mine(model, images, targets):
        attribution = getattr(pytest.importorskip("captum.attr"), name)
        return attribution(model).attribute(images.requires_grad_(), target=targets, **options)

    return mine


def use_captum_layer(name):
    return lambda model: getattr(pytest.importorskip("captum.attr"), name)(model, model[3])


def use_zennit(name, **options):
    def mine(model, images, targets):
        from zennit import composites
        from zennit.attribution import Gradient

        with Gradient(model, getattr(composites, name)(**options)) as attributor:
            return attributor(images, torch.eye(3)[targets])[1]

    return mine


def use_grad_cam(name):
    def mine(model, images, targets):
        import pytorch_grad_cam
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

        with getattr(pytorch_grad_cam, name)(model, [model[3]]) as cam:
            return torch.from_numpy(cam(images, list(map(ClassifierOutputTarget, targets.tolist()))))

    return mine


def use_torchcam(name):
    def mine(model, images, targets):
        from torchcam import methods

        with getattr(methods, name)(model, model[3], input_shape=(3, 16, 16)) as extractor:
            (maps,) = extractor(targets.tolist(), model(images.requires_grad_()))
        return nn.functional.interpolate(maps[:, None], size=(16, 16), mode="bilinear")

    return mine


def use_quantus(model, inputs, targets, **options):
    import quantus

    return quantus.explain(model, inputs, targets, method="Saliency")


ZOO = {
    "captum Saliency": ("captum", use_captum("Saliency")),
    "captum IntegratedGradients": ("captum", use_captum("IntegratedGradients", n_steps=5)),
    "captum DeepLift": ("captum", use_captum("DeepLift")),
    "captum GuidedBackprop": ("captum", use_captum("GuidedBackprop")),
    "captum Deconvolution": ("captum", use_captum("Deconvolution")),
    "captum FeatureAblation": ("captum", use_captum("FeatureAblation", perturbations_per_eval=64)),
    "captum GuidedGradCam": ("captum", use_captum_layer("GuidedGradCam")),
    "zennit EpsilonPlus": ("zennit", use_zennit("EpsilonPlus")),
    "zennit EpsilonGammaBox": ("zennit", use_zennit("EpsilonGammaBox", low=-3, high=3)),
    "zennit GuidedBackprop": ("zennit", use_zennit("GuidedBackprop")),
    "grad-cam GradCAM": ("pytorch_grad_cam", use_grad_cam("GradCAM")),
    "grad-cam LayerCAM": ("pytorch_grad_cam", use_grad_cam("LayerCAM")),
    "grad-cam ScoreCAM": ("pytorch_grad_cam", use_grad_cam("ScoreCAM")),
    "torchcam GradCAM": ("torchcam", use_torchcam("GradCAM")),
    "torchcam LayerCAM": ("torchcam", use_torchcam("LayerCAM")),
    "quantus Saliency": ("quantus", use_quantus),
}


def read_state(networks):
    """Return ids and values of all that networks hold, and the functions of torch."""
    state = [networks[0].training, torch.is_grad_enabled(), torch.get_rng_state().tolist()]
    for module in (module for network in networks for module in network.modules()):
        tables = [vars(module)[name] for name in sorted(vars(module)) if isinstance(vars(module)[name], dict)]
        state.append([module.training, type(module), [{key: id(each[key]) for key in each} for each in tables]])
    for parameter in (each for network in networks for each in network.parameters()):
        state.append([id(parameter), parameter.detach().numpy().tobytes(), parameter.requires_grad])
    owners = (nn.functional, torch, torch.Tensor, *(kind for kind in vars(nn).values() if isinstance(kind, type)))
    known = [{name: id(value) for name, value in vars(owner).items() if callable(value)} for owner in owners]
    return state, known


@pytest.mark.parametrize("case", ZOO)
def test_explainer_changes_nothing_and_gives_the_same_table_twice(case):
    package, mine = ZOO[case]
    import_torchvision_models()  # before zennit, which imports torchvision
    pytest.importorskip(package)
    networks, estimators = make_networks(), {"mine": mine, "grad": "grad"}
    alone = rb.own_network_gain(networks, IMAGES, ["grad"]).gain("grad")
    rb.own_network_gain(networks, IMAGES, estimators)  # imports what the package imports lazily
    before, functions = read_state(networks)
    table = rb.own_network_gain(networks, IMAGES, estimators)
    after, same_functions = read_state(networks)
    assert after == before and same_functions == functions
    assert table.gain("grad") == alone and np.isfinite(table.gain("mine").value)
    assert repr(rb.own_network_gain(networks, IMAGES, estimators)) == repr(table)
