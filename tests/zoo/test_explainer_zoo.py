"""Explainers of other packages give the same maps as without roarbench, and change no network, setting or other row.

`make soak` runs installed packages; docs/works-with.md has the versions.
"""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.compute.external_networks import import_torchvision_models

IMAGES = torch.randn(24, 3, 16, 16, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(24) % 3
BLOCKS = (torch.arange(16)[:, None] // 4 * 4 + torch.arange(16) // 4).repeat(1, 3, 1, 1)  # 16 squares
pytestmark = [
    pytest.mark.soak,
    *(pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "UserWarning", "FutureWarning")),
]


@cache
def train_networks():
    torch.manual_seed(0)
    return tuple(train_network() for _ in range(3))


def train_network():
    """Return a network in train mode that knows the labels of the images, so that siblings agree."""
    first = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
    network = nn.Sequential(*first, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 3))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(IMAGES), LABELS).backward()
        optimiser.step()
    optimiser.zero_grad()
    return network


def use_captum(name, *layers, **options):
    def mine(model, images, targets):
        kind = getattr(pytest.importorskip("captum.attr"), name)
        attribution = kind(model, *(model[layer] for layer in layers))
        return attribution.attribute(images.requires_grad_(), target=targets, **options)

    return mine


def use_captum_with_baselines(name):
    def mine(model, images, targets):
        return use_captum(name, baselines=torch.zeros_like(IMAGES[:2]))(model, images, targets)

    return mine


def use_noise_tunnel(model, images, targets):
    from captum.attr import NoiseTunnel, Saliency

    return NoiseTunnel(Saliency(model)).attribute(images.requires_grad_(), target=targets, nt_samples=3)


def use_layer_grad_cam(model, images, targets):
    from captum.attr import LayerAttribution, LayerGradCam

    return LayerAttribution.interpolate(LayerGradCam(model, model[3]).attribute(images, target=targets), (16, 16))


def use_zennit(name, canonizer="", **options):
    def mine(model, images, targets):
        from zennit import attribution, canonizers, composites

        if canonizer:
            options["canonizers"] = [getattr(canonizers, canonizer)()]
        composite = getattr(composites, name)(**options)
        with attribution.Gradient(model, composite) as explain:
            return explain(images, torch.eye(3)[targets])[1]

    return mine


def use_zennit_smooth_grad(model, images, targets):
    from zennit.attribution import SmoothGrad
    from zennit.composites import EpsilonPlus

    with SmoothGrad(model, EpsilonPlus(), n_iter=3) as explain:
        return explain(images, torch.eye(3)[targets])[1]


def use_grad_cam(name):
    def mine(model, images, targets):
        import pytorch_grad_cam
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

        with getattr(pytorch_grad_cam, name)(model, [model[3]]) as cam:
            return torch.from_numpy(cam(images, list(map(ClassifierOutputTarget, targets.tolist()))))

    return mine


def use_guided_relu(model, images, targets):
    """Replace the network's ReLU modules, twice per image."""
    from pytorch_grad_cam import GuidedBackpropReLUModel

    guided = GuidedBackpropReLUModel(model, "cpu")
    maps = [guided(image[None], int(target)) for image, target in zip(images, targets, strict=True)]
    return torch.from_numpy(np.stack(maps)).permute(0, 3, 1, 2)


def use_torchcam(name, **options):
    def mine(model, images, targets):
        from torchcam import methods

        with getattr(methods, name)(model, model[3], input_shape=(3, 16, 16), **options) as extractor:
            (maps,) = extractor(targets.tolist(), model(images.requires_grad_()))
        return nn.functional.interpolate(maps[:, None], size=(16, 16), mode="bilinear")

    return mine


def use_quantus(method):
    def mine(model, images, targets):
        import quantus

        return quantus.explain(model, images, targets, method=method)

    return mine


def use_shap(name, **options):
    def mine(model, images, targets):
        import shap

        values = np.asarray(
            getattr(shap, name)(model, IMAGES[:4]).shap_values(images, **options)
        )  # (n, c, h, w, classes)
        return torch.from_numpy(values)[torch.arange(len(images)), ..., targets]

    return mine


_CAPTUM = {
    name: use_captum(name) for name in ("Saliency", "InputXGradient", "GuidedBackprop", "Deconvolution", "DeepLift")
}
_CAPTUM |= {name: use_captum_with_baselines(name) for name in ("DeepLiftShap", "GradientShap")}
_CAPTUM |= {name: use_captum(name, feature_mask=BLOCKS) for name in ("FeatureAblation", "FeaturePermutation")}
_CAPTUM |= {
    "KernelShap": use_captum("KernelShap", feature_mask=BLOCKS, n_samples=5),
    "ShapleyValueSampling": use_captum("ShapleyValueSampling", feature_mask=BLOCKS, n_samples=1),
    "IntegratedGradients": use_captum("IntegratedGradients", n_steps=5),
    "Occlusion": use_captum("Occlusion", sliding_window_shapes=(3, 4, 4), strides=(3, 4, 4)),
    "GuidedGradCam": use_captum("GuidedGradCam", 3),
    "NoiseTunnel": use_noise_tunnel,
    "LayerGradCam": use_layer_grad_cam,
}
_ZENNIT = {
    name: use_zennit(name)
    for name in (
        *("EpsilonPlus", "EpsilonPlusFlat", "EpsilonAlpha2Beta1", "EpsilonAlpha2Beta1Flat", "GuidedBackprop"),
        *("DeconvNet", "ExcitationBackprop", "BetaSmooth"),
    )
}
_ZENNIT |= {
    "EpsilonGammaBox": use_zennit("EpsilonGammaBox", low=-3, high=3),
    "EpsilonPlus, batch norm merged": use_zennit("EpsilonPlus", "SequentialMergeBatchNorm"),
    "SmoothGrad": use_zennit_smooth_grad,
}
_GRAD_CAM = (
    *(
        "GradCAM",
        "GradCAMPlusPlus",
        "GradCAMElementWise",
        "HiResCAM",
        "XGradCAM",
        "LayerCAM",
        "ScoreCAM",
        "AblationCAM",
    ),
    *("EigenCAM", "EigenGradCAM", "FullGrad", "ShapleyCAM", "FEM"),
)
_TORCHCAM = {name: use_torchcam(name) for name in ("GradCAM", "GradCAMpp", "XGradCAM", "LayerCAM", "ScoreCAM")}
_TORCHCAM |= {name: use_torchcam(name, num_samples=2) for name in ("SmoothGradCAMpp", "SSCAM", "ISCAM")}
_PACKAGES = {
    "captum": _CAPTUM,
    "zennit": _ZENNIT,
    "pytorch_grad_cam": {name: use_grad_cam(name) for name in _GRAD_CAM} | {"guided ReLU": use_guided_relu},
    "torchcam": _TORCHCAM,
    "quantus": {name: use_quantus(name) for name in ("Saliency", "IntegratedGradients", "InputXGradient")},
    "shap": {
        "GradientExplainer": use_shap("GradientExplainer", nsamples=5),
        "DeepExplainer": use_shap("DeepExplainer"),
    },
}
ZOO = {f"{package} {name}": mine for package, cases in _PACKAGES.items() for name, mine in cases.items()}


def read_state(networks):
    """Return the identities and values of all that networks hold, and the functions of torch."""
    state = [torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state().tolist()]
    state += [np.random.get_state()[1].tolist()]  # noqa: NPY002 (the global one)
    for module in (module for network in networks for module in network.modules()):
        tables = {name: held for name, held in vars(module).items() if isinstance(held, dict)}
        ids = {name: {key: id(value) for key, value in held.items()} for name, held in tables.items()}
        state.append([module.training, type(module), sorted(vars(module)), ids])
    for tensor in (each for network in networks for each in (*network.parameters(), *network.buffers())):
        state.append([tensor.detach().numpy().tobytes(), tensor.requires_grad, tensor.grad])
    owners = (nn.functional, torch, torch.Tensor, *(kind for kind in vars(nn).values() if isinstance(kind, type)))
    functions = {(owner, name): value for owner in owners for name, value in vars(owner).items() if callable(value)}
    return state, {key: id(value) for key, value in functions.items()}


def record_calls(mine, calls):
    """Return the explainer under a fixed seed; it notes what it was given and what it returned."""

    def recorded(model, images, targets):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 (the global one, which shap and captum use)
        maps = mine(model, images.clone(), targets)
        calls.append((model, images.detach().clone(), targets, torch.as_tensor(maps).detach().clone()))
        return maps

    return recorded


@cache
def compute_rows_of_gradient():
    networks = deepcopy(train_networks())
    gain = rb.own_network_gain(networks, IMAGES, ["grad"]).gain("grad")
    table = rb.check(networks[0], IMAGES, LABELS, ["grad"], networks[1:], fills=("mean",))
    return gain, table.gain("morf mean", "grad")


@pytest.mark.parametrize("case", ZOO)
def test_explainer_gives_its_own_maps_and_changes_nothing_else(case):
    import_torchvision_models()  # before packages that import torchvision
    pytest.importorskip(case.partition(" ")[0])
    networks, calls = deepcopy(train_networks()), []
    mine = record_calls(ZOO[case], calls)
    estimators = {"mine": mine, "grad": "grad"}
    first = rb.own_network_gain(networks, IMAGES, estimators)  # imports what the package imports lazily
    before = read_state(networks)
    again = rb.own_network_gain(networks, IMAGES, estimators)
    table = rb.check(networks[0], IMAGES, LABELS, estimators, networks[1:], fills=("mean",))
    assert read_state(networks) == before
    assert np.isfinite(first.gain("mine").value) and repr(again) == repr(first)
    assert (again.gain("grad"), table.gain("morf mean", "grad")) == compute_rows_of_gradient()
    for model, images, targets, maps in (calls[0], calls[-1]):
        alone = record_calls(ZOO[case], [])(deepcopy(model).eval(), images, targets)
        torch.testing.assert_close(maps, torch.as_tensor(alone).detach(), rtol=0, atol=0)


def make_vision_transformers():
    from torchvision.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32, "num_classes": 3}
    networks = [VisionTransformer(image_size=16, patch_size=4, **sizes) for _ in range(3)]
    for network in networks:
        nn.init.normal_(network.heads.head.weight)
        network.heads.head.bias.data = 10 * torch.eye(3)[0]
    return networks


def test_grad_cam_of_a_vision_transformer_equals_one_by_hand():
    """`reshape_transform` of grad-cam; some maps have no positive part, and are 0."""
    import_torchvision_models()
    package = pytest.importorskip("pytorch_grad_cam")
    networks = make_vision_transformers()

    def read_grid(tokens):
        return tokens[:, 1:].reshape(-1, 4, 4, 16).permute(0, 3, 1, 2)

    def by_hand(model, images, targets):
        kept = []
        hook = model.encoder.layers[-1].ln_1.register_forward_hook(lambda *call: kept.append(call[2]))
        logits = model(images)
        hook.remove()
        (gradient,) = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), kept)
        grid = (read_grid(kept[0]) * read_grid(gradient).mean((2, 3), keepdim=True)).sum(1, keepdim=True).relu()
        return nn.functional.interpolate(grid.detach(), size=(16, 16), mode="bilinear")

    def mine(model, images, targets):
        layer, choose = model.encoder.layers[-1].ln_1, package.utils.model_targets.ClassifierOutputTarget
        cam = package.GradCAM(model, [layer], reshape_transform=read_grid)  # leaves its hooks
        maps = torch.from_numpy(cam(images, list(map(choose, targets.tolist()))))
        assert bool((maps > 0).flatten(1).any(1).eq((by_hand(model, images, targets) > 0).flatten(1).any(1)).all())
        return maps

    table = rb.own_network_gain(networks, IMAGES, {"mine": mine, "by hand": by_hand})
    assert table.gain("mine").value == pytest.approx(table.gain("by hand").value, abs=2)


def test_lxt_is_refused_because_it_patches_classes_and_its_patch_is_undone():
    vision_transformer = import_torchvision_models().vision_transformer
    efficient = pytest.importorskip("lxt.efficient")
    networks = make_vision_transformers()

    def mine(model, images, targets):
        efficient.monkey_patch(vision_transformer)
        images = images.clone().requires_grad_()
        return torch.autograd.grad(model(images).gather(1, targets[:, None]).sum(), images)[0] * images

    expected = repr(rb.own_network_gain(networks, IMAGES, ["grad"]))
    before = read_state(networks)
    with pytest.raises(rb.CallerError, match="mine replaced .*; put the originals back at the end"):
        rb.own_network_gain(networks, IMAGES, {"mine": mine, "grad": "grad"})
    (state, functions), (after, others) = before, read_state(networks)
    assert after == state and others.items() >= functions.items()  # lxt adds `original_forward`, which nobody calls
    assert repr(rb.own_network_gain(networks, IMAGES, ["grad"])) == expected


def test_attention_rollout_of_transformers_works_again():
    import_torchvision_models()
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.ViTConfig(image_size=16, patch_size=4, num_labels=3, attn_implementation="eager", **sizes)
    torch.manual_seed(0)
    networks = [transformers.ViTForImageClassification(config) for _ in range(3)]
    for network in networks:
        network.classifier.bias.data = 10 * torch.eye(3)[0]

    def rollout(model, images, targets):
        result = torch.eye(17)
        for layer in model(images, output_attentions=True).attentions:
            result = (layer.mean(1) + torch.eye(17)) / 2 @ result
        return nn.functional.interpolate(result[:, 0, 1:].reshape(-1, 1, 4, 4), size=(16, 16))

    first = rb.own_network_gain(networks, IMAGES, {"mine": rollout})
    assert len(networks[0](IMAGES[:2], output_attentions=True).attentions) == 2
    assert repr(rb.own_network_gain(networks, IMAGES, {"mine": rollout})) == repr(first)
