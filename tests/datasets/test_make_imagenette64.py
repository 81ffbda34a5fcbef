import importlib.util
from io import BytesIO
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from tests.helpers.tiny_set import png, write_split

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_imagenette64.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_imagenette64", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_centre_square_is_stored_as_webp(script: ModuleType) -> None:
    """A photograph with a white square in the middle and black on both sides becomes white."""
    pixels = np.zeros((100, 160, 3), np.uint8)
    pixels[:, 30:130] = 255
    small = script.small_image({"bytes": png(pixels), "path": "n01.JPEG"})
    assert small["path"] == "n01.webp"
    with Image.open(BytesIO(small["bytes"])) as image:
        assert image.format == "WEBP"
        assert image.size == (64, 64)
        assert np.asarray(image).mean() > 250  # WebP blurs corners


def test_order_labels_and_names_are_kept(script: ModuleType) -> None:
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    shades = [0, 80, 160, 240]
    images = [{"bytes": png(np.full((90, 70), shade, np.uint8)), "path": f"{shade}.png"} for shade in shades]
    split = datasets.Dataset.from_dict({"image": images, "label": [1, 0, 0, 1]}, features=features)
    small = script.small_split(split)
    assert small.features == features
    assert list(small["label"]) == [1, 0, 0, 1]
    means = [np.asarray(row["image"].convert("L")).mean() for row in small]
    np.testing.assert_allclose(means, shades, atol=3)  # WebP keeps luminance in 16 … 235


def test_another_number_of_images_is_refused(script: ModuleType, tmp_path: Path) -> None:
    for split in ("train", "validation"):
        write_split(tmp_path, split, [png(np.zeros((9, 9), np.uint8))], [0], ("image", "label"))
    with pytest.raises(SystemExit, match="has {'train': 1, 'validation': 1} images, expected {'train': 9469"):
        script.read_source(str(tmp_path))
