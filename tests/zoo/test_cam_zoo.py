"""Grad-CAM of networks of other packages against hand-made maps and rewritings; docs/works-with.md has the results.

`make soak` runs these tests; a package that is not installed is skipped.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roarbench.common.errors import RunError
from roarbench.compute.external_networks import import_torchvision_models, wrap_to_return_logits
from roarbench.estimators.estimator import Batch
from tests.helpers.networks import importance
from tests.helpers.trainings import seeded

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore")]
SIDE, CLASSES = 64, 4


def import_package(name):
    import_torchvision_models()  # declares operators of a torchvision that was built for another torch
    return pytest.importorskip(name, exc_type=Exception)


def make_timm(name, **settings):
    return import_package("timm").create_model(name, num_classes=CLASSES, **settings)


def make_torchvision(name, **settings):
    return import_torchvision_models().get_model(name, weights=None, num_classes=CLASSES, **settings)


def make_swin():
    package = import_package("transformers")
    sizes = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    return package.SwinForImageClassification(package.SwinConfig(image_size=SIDE, num_labels=CLASSES, **sizes))


def make_focalnet():
    package = import_package("transformers")
    sizes = {"embed_dim": 16, "depths": [1, 1, 1, 1]}
    return package.FocalNetForImageClassification(package.FocalNetConfig(image_size=SIDE, num_labels=CLASSES, **sizes))


def make_siglip():
    sizes = {"img_size": SIDE, "embed_dim": 32, "depth": 2, "num_heads": 2}
    return make_timm("vit_base_patch16_siglip_224", **sizes)


def wake(network):
    """Draw weights that start near 0, such as heads and layer scales, as if the network were trained."""
    generator = seeded(0)
    for values in network.parameters():
        if values.numel() and values.abs().max() < 0.08:
            nn.init.normal_(values, std=0.1 if values.ndim > 1 else 0.3, generator=generator)
    return network.eval()


def make_batch(network, side=SIDE):
    images = torch.randn(2, 3, side, side, generator=seeded(1))
    network = wrap_to_return_logits(network, images)
    targets = network(images).argmax(1)
    return network, Batch(images, targets, torch.arange(2))


FIRST, LAST, TOKENS = "n c h w", "n h w c", "n (h w) c"
NETWORKS = {  # the module whose output, after ReLU if it says so, is the layer, and the order of its axes
    "timm tiny_vit": (lambda: make_timm("tiny_vit_5m_224"), "stages", FIRST, False),
    "timm mambaout": (lambda: make_timm("mambaout_femto"), "stages", LAST, False),
    "timm sequencer2d": (lambda: make_timm("sequencer2d_s"), "norm", LAST, False),
    "timm SigLIP, attention pool": (make_siglip, "norm", TOKENS, False),
    "timm selecsls42": (lambda: make_timm("selecsls42"), "head.1", FIRST, False),
    "transformers FocalNet": (make_focalnet, "focalnet.layernorm", TOKENS, False),
    "transformers Swin": (make_swin, "swin.layernorm", TOKENS, False),
    "torchvision GoogLeNet": (
        lambda: make_torchvision("googlenet", aux_logits=False, init_weights=False), "inception5b", FIRST, False,
    ),
    "torchvision DenseNet": (lambda: make_torchvision("densenet121"), "features", FIRST, True),
    "torchvision ConvNeXt": (lambda: make_torchvision("convnext_tiny"), "features", FIRST, False),
}  # fmt: skip


def arrange(values, axes):
    if axes == TOKENS:
        side = int(values.shape[1] ** 0.5)
        values = values.unflatten(1, (side, side))
    return values if axes == FIRST else values.permute(0, 3, 1, 2)


@pytest.mark.parametrize("case", NETWORKS)
def test_map_equals_hand_made_map(case):
    make, name, axes, rectified = NETWORKS[case]
    torch.manual_seed(0)
    plain, kept = wake(make()), []

    def keep(module, inputs, output):
        kept.append(output.relu() if rectified else output)
        return kept[-1]

    network, batch = make_batch(plain)
    with plain.get_submodule(name).register_forward_hook(keep):
        kept.clear()
        logits = network(batch.images)
    expected = torch.zeros(())
    for label in range(CLASSES):  # a label with a map above 0
        batch = batch._replace(targets=torch.full((2,), label))
        (gradient,) = torch.autograd.grad(logits[:, label].sum(), kept[0], retain_graph=True)
        weights = arrange(gradient, axes).mean((2, 3), keepdim=True)
        sums = (weights * arrange(kept[0].detach(), axes)).sum(1, keepdim=True).relu()
        expected = F.interpolate(sums, (SIDE, SIDE), mode="bilinear").expand(batch.images.shape)
        if expected.amax((1, 2, 3)).gt(0).all():
            break
    assert expected.max() > 0
    tolerance = 1e-4 * expected.max().item()
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=tolerance)


def compare(*networks):
    """Compare the maps of networks that have equal logits."""
    _, batch = make_batch(networks[0])
    wrapped = [wrap_to_return_logits(network.eval(), batch.images) for network in networks]
    torch.testing.assert_close(wrapped[1](batch.images), wrapped[0](batch.images), rtol=1e-3, atol=1e-3)
    maps = [importance("gradcam", network, batch) for network in wrapped]
    assert maps[0].max() > 0
    torch.testing.assert_close(maps[1], maps[0], rtol=0, atol=1e-3 * maps[0].max().item())


def test_convnext_has_same_map_with_convolutions_and_linear_layers():
    torch.manual_seed(0)
    linear, convolutions = wake(make_timm("convnext_atto")), make_timm("convnext_atto", conv_mlp=False)
    state = convolutions.state_dict()
    convolutions.load_state_dict({name: values.view(state[name].shape) for name, values in linear.state_dict().items()})
    compare(linear, convolutions)


def test_resnet_18_of_torchvision_and_of_transformers_have_same_map():
    package = import_package("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    other = package.ResNetForImageClassification(package.ResNetConfig(num_labels=CLASSES, **sizes))
    first = wake(make_torchvision("resnet18"))
    # both list their weights from the input to the output, but shortcuts come first in transformers
    groups = [
        [
            (name, values)
            for name, values in network.state_dict().items()
            if ("shortcut" in name or "downsample" in name) is cut
        ]
        for cut in (False, True)
        for network in (first, other)
    ]
    for ours, theirs in ((groups[0], groups[1]), (groups[2], groups[3])):
        other.load_state_dict({name: values for (name, _), (_, values) in zip(theirs, ours, strict=True)}, strict=False)
    compare(first, other)


def test_adapter_has_same_map_merged_and_unmerged():
    package = import_package("peft")
    torch.manual_seed(0)
    settings = package.LoraConfig(r=2, target_modules=r".*conv[12]")
    adapted = package.get_peft_model(wake(make_torchvision("resnet18")), settings).eval()
    for name, values in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(values, std=0.05)
    compare(adapted, copy.deepcopy(adapted).merge_and_unload())


REFUSED = {
    "cait_xxs24_224": "form no grid that follows the image, as with a class token",
    "resnet50_clip": "form no grid that follows the image, as with a class token",
    "deit_tiny_patch16_224": "form no grid that follows the image, as with a class token",
    "hiera_tiny_224": r"the last tensor on every path \(n, 16, 384\) is early",
    "levit_128s": r"the last tensor on every path \(n, 16, \d+\) is early",
    "mvitv2_tiny": r"the last tensor on every path \(n, 64, 192\) is early",
}


@pytest.mark.parametrize("name", REFUSED)
def test_network_without_last_grid_is_refused(name):
    torch.manual_seed(0)
    network, batch = make_batch(wake(make_timm(name, img_size=SIDE)))
    with pytest.raises(RunError, match=REFUSED[name]):
        importance("gradcam", network, batch)
