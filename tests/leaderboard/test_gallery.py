import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leaderboard.gallery import (
    Gallery,
    _load,
    data_uri,
    degraded,
    enlarged,
    gallery_file,
    heat,
    original,
    read_gallery,
    save_gallery,
)
from roarbench.analysis.boards import SuiteResults
from roarbench.kernels.ranking import Layout, encode, rank, sort_keys, tie_order
from roarbench.terms import Order, Unit
from tests.helpers.slow_pipeline import features_of

LEVELS = (0.1, 0.5, 0.9)
SHAPE = (3, 8, 8)


@pytest.fixture(scope="module", params=list(Unit))
def made(request: pytest.FixtureRequest) -> tuple[Gallery, np.ndarray]:
    """A gallery of two images with a known ranking, most important first."""
    unit = request.param
    generator = np.random.default_rng(0)
    layout = Layout(SHAPE, unit, LEVELS)
    importance = generator.random((2, layout.features)).astype(np.float32)
    ties = tie_order(np.arange(2), layout.features)
    planes = encode(sort_keys(importance, ties), layout)
    pixels = generator.integers(0, 255, (2, *SHAPE)).astype(np.uint8)
    gallery = Gallery((3, 9), pixels, (10.0, 20.4, 30.6), layout, {"grad": planes}, {"grad": 1.25})
    return gallery, rank(importance, ties)


@pytest.mark.parametrize("t", LEVELS)
@pytest.mark.parametrize("order", list(Order))
def test_degraded_by_slow_loops(made: tuple[Gallery, np.ndarray], t: float, order: Order) -> None:
    gallery, ranking = made
    members = features_of(SHAPE, gallery.layout.unit)
    wanted = gallery.pixels.copy()
    for image, features in enumerate(ranking):
        count = round(t * len(features))
        gone = features[:count] if order is Order.MORF else features[::-1][:count]
        for feature in gone:
            for c, y, x in members[feature]:
                wanted[image, c, y, x] = (10, 20, 31)[c]
    np.testing.assert_array_equal(gallery.degraded("grad", t, order), wanted)


def test_heat_is_highest_where_features_go_first(made: tuple[Gallery, np.ndarray]) -> None:
    gallery, ranking = made
    heat = gallery.heat("grad")
    assert heat.shape == (2, 8, 8) and heat.min() >= 0 and heat.max() <= 1
    if gallery.layout.unit is Unit.PIXEL:
        first, last = ranking[0][0], ranking[0][-1]
        assert heat[0].flat[first] == 1 and heat[0].flat[last] == 0


def test_a_saved_strip_comes_back(made: tuple[Gallery, np.ndarray], tmp_path: Path) -> None:
    gallery, _ = made
    save_gallery(gallery, tmp_path / "deep" / "gallery.npz")
    again = _load(tmp_path / "deep" / "gallery.npz")
    np.testing.assert_array_equal(again.pixels, gallery.pixels)
    np.testing.assert_array_equal(again.planes["grad"], gallery.planes["grad"])
    assert (again.numbers, again.fill, again.layout) == (gallery.numbers, gallery.fill, gallery.layout)
    assert again.seconds == {"grad": 1.25}


def test_a_store_without_images_has_its_strip_file_or_none(
    made: tuple[Gallery, np.ndarray], quick: SuiteResults, tmp_path: Path
) -> None:
    assert read_gallery(quick, tmp_path) is None
    save_gallery(made[0], gallery_file(quick, tmp_path))
    assert read_gallery(quick, tmp_path).numbers == (3, 9)


def test_pictures_are_rgb_and_fit_a_page(made: tuple[Gallery, np.ndarray]) -> None:
    gallery, _ = made
    for picture in (
        original(gallery, 0),
        heat(gallery, "grad", 1),
        degraded(gallery, "grad", 0, 0.9),
    ):
        assert picture.shape == (8, 8, 3) and picture.dtype == np.uint8
        assert enlarged(picture).shape == (128, 128, 3)
        head, _, body = data_uri(picture).partition(",")
        assert head == "data:image/png;base64"
        assert Image.open(io.BytesIO(base64.b64decode(body))).size == (8, 8)


def test_grey_images_are_shown_in_grey() -> None:
    layout = Layout((1, 4, 4), Unit.SCALAR, (0.5,))
    pixels = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    gallery = Gallery((0,), pixels, (7.0,), layout, {}, {})
    shown = original(gallery, 0)
    assert shown.shape == (4, 4, 3) and (shown == shown[..., :1]).all()
