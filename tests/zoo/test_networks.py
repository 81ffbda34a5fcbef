"""Tiny networks of other packages: maps agree with finite differences, sums and rewritings, or are refused in one line.

`make soak` runs these tests; a package that is not installed is skipped. docs/works-with.md has the results.
"""

import copy
import os

import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.common.errors import RoarbenchError
from roarbench.compute.external_networks import import_torchvision_models, wrap_to_return_logits
from roarbench.estimators.estimator import Batch
from tests.helpers.networks import importance

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore")]
SIDE, CLASSES = 32, 3


def import_package(name):
    import_torchvision_models()  # a torchvision for another build of torch cannot be imported otherwise
    return pytest.importorskip(name, exc_type=Exception)


def make_timm(name):
    return lambda: (
        import_package("timm").create_model(name, num_classes=CLASSES, img_size=SIDE)
        if "vit" in name
        else (import_package("timm").create_model(name, num_classes=CLASSES))
    )


def make_transformers_vit():
    package = import_package("transformers")
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)  # noqa: C408
    config = package.ViTConfig(**sizes, image_size=SIDE, patch_size=8, num_labels=CLASSES)
    return package.ViTForImageClassification(config)


def make_transformers_resnet():
    package = import_package("transformers")
    config = package.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=CLASSES)
    return package.ResNetForImageClassification(config)


def make_convolutions():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


def make_lora():
    package = import_package("peft")
    adapted = package.get_peft_model(make_convolutions(), package.LoraConfig(r=2, target_modules=["3", "7"]))
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weights)
    return adapted


def make_adapter(kind, weights, **settings):
    def make():
        package = import_package("peft")
        adapted = package.get_peft_model(make_convolutions(), getattr(package, kind)(**settings))
        for name, values in adapted.named_parameters():
            if weights in name:
                nn.init.normal_(values)
        return adapted

    return make


def make_segmentation_encoder():
    encoder = import_package("segmentation_models_pytorch").encoders.get_encoder("resnet18", weights=None)

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = encoder, nn.Linear(512, CLASSES)

        def forward(self, x):
            return self.head(self.encoder(x)[-1].mean((2, 3)))

    return Classifier()


def make_lightning():
    class Lit(import_package("lightning").LightningModule):
        def __init__(self):
            super().__init__()
            self.network = make_convolutions()

        def forward(self, x):
            return self.network(x)

    return Lit()


def make_quantised():
    package = import_package("torchao.quantization")
    network = make_convolutions()
    package.quantize_(network, package.Int8WeightOnlyConfig())
    return network


def make_cvt():
    package = import_package("transformers")
    sizes = {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 2, 3]}
    return package.CvtForImageClassification(package.CvtConfig(**sizes, num_labels=CLASSES))


def make_spiking():
    package = import_package("snntorch")

    class Spiking(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.cell, self.head = nn.Conv2d(3, 8, 3), package.Leaky(beta=0.9), nn.Linear(8, CLASSES)

        def forward(self, x):
            memory, total = self.cell.init_leaky(), 0
            for _ in range(3):
                spikes, memory = self.cell(self.first(x), memory)
                total = total + self.head(spikes.mean((2, 3)))
            return total

    return Spiking()


def make_monai():
    package = import_package("monai.networks.nets")
    settings = dict(init_features=8, growth_rate=4, block_config=(2, 2))  # noqa: C408
    return package.DenseNet(spatial_dims=2, in_channels=3, out_channels=CLASSES, **settings)


def make_onnx(tmp=[]):  # noqa: B006
    convert, onnx = import_package("onnx2torch"), import_package("onnx")
    import io

    file = io.BytesIO()
    shapes = {"x": {0: "n"}, "y": {0: "n"}}
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": shapes}
    torch.onnx.export(make_convolutions().eval(), torch.randn(2, 3, SIDE, SIDE), file, dynamo=False, **names)
    return convert.convert(onnx.load_from_string(file.getvalue()))


def make_keras():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = import_package("keras")
    layers = keras.layers
    first = [layers.Input((3, SIDE, SIDE)), layers.Permute((2, 3, 1)), layers.Conv2D(8, 3, activation="relu")]
    network = keras.Sequential(
        [*first, layers.Conv2D(8, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)]
    )
    network(torch.zeros(1, 3, SIDE, SIDE))
    return network


def make_torchvision(name, **settings):
    return lambda: import_torchvision_models().get_model(name, weights=None, num_classes=CLASSES, **settings)


def make_memory_efficient_densenet():
    return import_torchvision_models().DenseNet(8, (2, 2), 16, num_classes=CLASSES, memory_efficient=True)


NETWORKS = {
    "timm test_resnet": make_timm("test_resnet"),
    "timm test_convnext": make_timm("test_convnext"),
    "timm test_efficientnet": make_timm("test_efficientnet"),
    "timm resnetv2_18d": make_timm("resnetv2_18d"),
    "transformers ViT": make_transformers_vit,
    "transformers ResNet": make_transformers_resnet,
    "peft LoRA": make_lora,
    "peft DoRA": make_adapter("LoraConfig", "lora_B", r=2, target_modules=["3", "7"], use_dora=True),
    "peft IA3": make_adapter("IA3Config", "ia3", target_modules=["3", "7"], feedforward_modules=["7"]),
    "segmentation-models encoder": make_segmentation_encoder,
    "Lightning": make_lightning,
    "torchao int8": make_quantised,
    "transformers CvT": make_cvt,
    "torch.fx": lambda: torch.fx.symbolic_trace(make_convolutions()),
    "snntorch Leaky": make_spiking,
    "monai DenseNet": make_monai,
    "onnx2torch": make_onnx,
    "Keras on torch": make_keras,
    "torchvision mobilenet_v2": make_torchvision("mobilenet_v2", width_mult=0.25),
    "torchvision swin_v2_t": make_torchvision("swin_v2_t"),
    "torchvision DenseNet, memory-efficient": make_memory_efficient_densenet,
    "torch.compile": lambda: torch.compile(make_convolutions(), backend="eager"),
    "DataParallel": lambda: nn.DataParallel(make_convolutions()),
    "AveragedModel": lambda: torch.optim.swa_utils.AveragedModel(make_convolutions()),
}


def build(make):
    torch.manual_seed(0)
    network = make().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_var.uniform_(0.5, 1.5)
    images = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    return wrap_to_return_logits(network, images), Batch(images, torch.tensor([0, 2]), torch.arange(2))


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_gradient_equals_finite_differences(make):
    """Along the gradient itself, in float64; a spiking network's gradient is a surrogate, which has no such truth."""
    network, batch = build(make)
    if make in (make_spiking, make_keras, make_onnx, make_quantised):  # fixed to float32, or not differentiable
        pytest.skip("no float64, or no true gradient")
    network.double()
    batch = batch._replace(images=batch.images.double())
    found = importance("grad", network, batch)
    with torch.no_grad():
        step = 1e-6 * found / found.flatten(1).norm(dim=1)[:, None, None, None]
        ends = [network(batch.images + sign * step).gather(1, batch.targets[:, None])[:, 0] for sign in (1, -1)]
    torch.testing.assert_close((ends[0] - ends[1]) / 2e-6, found.flatten(1).norm(dim=1), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("estimator", ["ig", "input-x-grad", "deeplift", "lrp", "gb", "occlusion"])
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_maps_are_made_or_refused_in_one_line(make, estimator, request):
    """Contributions of DeepLIFT add up to the difference of logits, as captum's definition says."""
    network, batch = build(make)
    labels = network(batch.images).argmax(1)
    try:
        rb.check(network, batch.images, labels, [estimator], levels=(0.5,), fills=("mean",))
    except RoarbenchError as error:
        assert "\n" not in str(error)
        print(f"ZOO|{request.node.callspec.id}|refused: {error}")
        return
    print(f"ZOO|{request.node.callspec.id}|works")
    if estimator == "deeplift":
        maps, baseline = importance("deeplift", network, batch), torch.full_like(batch.images, -2.0)
        with torch.no_grad():
            change = (network(batch.images) - network(baseline)).gather(1, batch.targets[:, None])[:, 0]
        torch.testing.assert_close(maps.sum((1, 2, 3)), change, rtol=1e-2, atol=1e-3)


def test_merged_and_unmerged_lora_have_equal_maps():
    network, batch = build(make_lora)
    merged = copy.deepcopy(network).merge_and_unload()
    for estimator in ("lrp", "ig", "gb", "deeplift"):
        maps = [importance(estimator, each, batch) for each in (network, merged)]
        torch.testing.assert_close(*maps, rtol=1e-3, atol=1e-5)
