"""Pictures of a few test images: choice of the images, masks, maps and counts of correct predictions."""

import io
import re
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from leaderboard.links import Site, make_address
from leaderboard.pictures import (
    CorrectCountsPerImage,
    PictureMaker,
    choose_images_spread_by_lost_predictions,
    count_correct_per_image_over_all_levels,
    find_pictured_protocol,
    find_pictures_file,
    read_pictures,
    save_pictures,
)
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_view import SuiteView
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import TEST_IDS, Split, Unit
from roarbench.compute.degraded_images import compute_removal_magnitudes
from roarbench.compute.masks import compute_removal_magnitudes_in_numpy
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.random_draws import pair_images
from roarbench.execution import training_and_scoring
from roarbench.execution.run_inputs import make_packed_other_image_masks
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import OWN_NETWORK, SHOWN
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, Block
from roarbench.store.run_result import pack_correctness
from tests.helpers.board_store import results as made_results
from tests.helpers.tiny_suite import SUITE, TEST, make_work, open_rankings, open_rankings_of_run, rank_all, removed

ROAR, MORF, MATCHED = (SHOWN[name] for name in ("roar", "morf", "matched"))
ROWS = ("random", "sobel", "random-blurred", "grad")
UNIT = Unit.SCALAR
ANSWERS = CorrectCountsPerImage((1, 2, 3), (), 3)


def make_suite(protocol):
    return replace(SUITE, blocks=(Block(protocol, ROWS, (0.1, 0.5, 0.9), seeds=2),))


def make_results(protocol, data="x"):
    return SuiteResults(make_suite(protocol), data, None, made_results(make_suite(protocol), TEST))


def rank_in_folder(folder, protocol):
    """Make a store with images and the rankings of two rows, and return its work."""
    work = make_work(folder, make_suite(protocol))
    training_and_scoring.train_or_read_reference(work.explained[0])
    rank_all(work, "random", "grad")
    return work


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    return rank_in_folder(tmp_path_factory.mktemp("ranked"), MATCHED)


def test_picture_masks_equal_masks_of_runs_and_saved_pictures_load(ranked, tmp_path):
    """The masks are the row's own, another image's, and the matched mask, which runs make with torch."""
    found = make_results(MATCHED, ranked.images.fingerprint)
    numbers = np.array([3, 0, 5])
    makes = PictureMaker(ranked.images, numbers, MATCHED, 0.5)
    point = next(p for p in found.results if p.cell.estimator == "grad~matched" and p.cell.t == 0.5 and p.seed == 0)
    run = found.results[point].run
    rankings = open_rankings_of_run(ranked, run)
    own = removed(rankings, Split.TEST, 0.5, MATCHED.order)
    others = pair_images(TEST, TEST_IDS, 0)
    matched = make_packed_other_image_masks(ranked.images, run, rankings, np.packbits(own, axis=1), others)
    matched = np.unpackbits(matched, axis=1, count=own.shape[1]).astype(bool)
    for kind, bits in (("own", own), ("other", own[others]), ("matched", matched)):
        assert (makes.make_masks(rankings, kind) == bits[numbers]).mean() > 0.999, kind
    assert (makes.make_masks(rankings, "own") != makes.make_masks(rankings, "matched")).any()

    folder = ranked.images.folder.parents[1]
    assert read_pictures(found, tmp_path) is None
    made = read_pictures(found, folder)
    assert made is not None and made.rows == ("random", "grad") and made.level == 0.5
    assert made.kinds == ("map", "own", "matched", "other")
    assert Image.open(io.BytesIO(made.sheet("grad"))).size == (made.side * len(made.numbers), made.side * 4)
    assert Image.open(io.BytesIO(made.sheet(""))).size == (made.side * len(made.numbers), made.side)
    dark = replace(found, suite=replace(found.suite, blocks=tuple(replace(b, fill="blur") for b in found.suite.blocks)))
    assert read_pictures(dark, folder) is None  # pictures of other fills are not drawn
    save_pictures(made, find_pictures_file(found, tmp_path))
    again = read_pictures(found, tmp_path)
    assert again is not None and again.sheet("grad") == made.sheet("grad") and again.sheet("") == made.sheet("")


@pytest.mark.parametrize("page", ["images", "estimator"])
@pytest.mark.parametrize("live", [False, True])
def test_pages_without_scripts_show_photographs_and_sheet_of_row(ranked, live, page):
    view = SuiteView(make_results(MATCHED, ranked.images.fingerprint), ranked.images.folder.parents[1])
    views = {view.slug: view}
    site, images = Site(views, list_addresses(views), live), view.pictures
    html = render_page(site, make_address(page, view.slug if page == "images" else "", estimator="grad")).html
    for name, row in (("photos", ""), ("a", "grad")):
        (address,) = re.findall(rf"--{name}:url\('([^;]*)'\)", html.replace("data:image/webp;", ""))
        shown = b64decode(address.removeprefix("base64,")) if live else site.files[address]()
        assert shown == images.sheet(row), name


@pytest.mark.parametrize("unit", Unit)
def test_removal_magnitudes_in_numpy_match_torch(unit):
    """Magnitudes differ by at most 1 of 256, where float32 sums differ."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 30, 30)).astype(np.uint8)
    fill = np.array([120.4, 110.0, 99.7], np.float32)[:, None, None]
    slow = compute_removal_magnitudes(torch.from_numpy(pixels), torch.from_numpy(fill), unit)
    for one, other in zip(compute_removal_magnitudes_in_numpy(pixels, fill, unit), slow, strict=True):
        assert one.shape == other.shape
        assert np.abs(one.astype(int) - other).max() <= 1 and (one == other).mean() > 0.99


def set_correct_images(protocol, right):
    """Return results in which all networks of a row classify exactly these images correctly."""
    found = make_results(protocol)
    rows = {}
    for point, row in found.results.items():
        if point.cell.estimator in right:
            bits = np.isin(np.arange(row.total), right[point.cell.estimator])
            rows[point] = replace(row, bits=pack_correctness(bits), correct=int(bits.sum()))
    return replace(found, results=rows)


def test_pictured_images_have_most_lost_predictions():
    """Untouched, images 1 to 5 of six are correct; grad's own mask loses image 4 in six runs and gains image 2."""
    own = {CLEAN: [1, 2, 3, 4, 5], "grad": [1, 2, 3], "random": []}
    found = set_correct_images(MATCHED, own | {"grad~matched": [1, 3, 4], "random~matched": [5]})
    numbers, rule = choose_images_spread_by_lost_predictions(found, MATCHED, UNIT, 5)
    assert numbers.tolist() == [4, 1, 3, 5, 2] and "5 test images" in rule
    assert choose_images_spread_by_lost_predictions(found, MATCHED, UNIT, 3)[0].tolist() == [4, 3, 2]
    assert count_correct_per_image_over_all_levels(found, MATCHED, UNIT, "grad", [4, 2]) == ((0, 6), (6, 0), 6, "right")
    found = set_correct_images(ROAR, {CLEAN: [1, 2, 3], "grad": [1], "random": [1, 2, 3]})
    assert choose_images_spread_by_lost_predictions(found, ROAR, UNIT, 3)[0].tolist() == [2, 3, 1]
    assert count_correct_per_image_over_all_levels(found, ROAR, UNIT, "grad", [1, 2]) == ((6, 0), (), 6, "right")
    assert not len(choose_images_spread_by_lost_predictions(replace(found, results={}), ROAR, UNIT)[0])


def test_pictures_of_own_network_gain_include_map_of_next_network(tmp_path):
    """Networks keep images 0 and 1 under their own maps, and 1 and 2 under the next network's maps."""
    networks = replace(SUITE, blocks=(Block(OWN_NETWORK, ROWS, (0.1, 0.5), seeds=1),), references=3)
    found = SuiteResults(networks, "x", None, made_results(networks, TEST))
    rows = {}
    for point, row in found.results.items():
        own = point.seed // MAX_COMPARED_NETWORKS == point.seed % MAX_COMPARED_NETWORKS
        bits = np.isin(np.arange(row.total), [0, 1] if own else [1, 2])
        rows[point] = replace(row, bits=pack_correctness(bits), correct=2) if point.cell.estimator == "grad" else row
    found = replace(found, results=rows)
    assert find_pictured_protocol(found) is OWN_NETWORK
    counts = count_correct_per_image_over_all_levels(found, OWN_NETWORK, UNIT, "grad", [0, 1, 2, 3])
    assert counts == ((6, 6, 0, 0), (0, 6, 6, 0), 6, "kept")
    rule = choose_images_spread_by_lost_predictions(found, OWN_NETWORK, UNIT)[1]
    assert "on which the networks' predictions mostly agree" in rule and "correct" not in rule, "no label is used"
    work = make_work(tmp_path, networks)
    for explained in work.explained[:2]:
        training_and_scoring.train_or_read_reference(explained)
    rank_all(work, "random", "grad")
    rank_all(work, "grad", number=1)
    pictures = read_pictures(replace(found, data=work.images.fingerprint), tmp_path)
    assert pictures.kinds == ("map", "own", "sibling") and pictures.rows == ("random", "grad")
    makes, drawn = PictureMaker(work.images, np.array([0, 1]), OWN_NETWORK, 0.5), {}
    for name in ("grad", "random"):
        rankings = open_rankings(work, name), open_rankings(work, name, 1)
        drawn[name] = [makes.draw_line(kind, *rankings) for kind in ("own", "sibling")]
    assert np.not_equal(*drawn["grad"]).any(3).mean() > 0.2
    assert np.array_equal(*drawn["random"]), "a control has one map for all networks"


def test_picture_after_removal_matches_loops(ranked):
    makes = PictureMaker(ranked.images, np.array([2, 4]), MORF, 0.9)
    rankings = open_rankings(ranked, "grad")
    left = makes.draw_line("own", rankings)
    gone = makes.make_masks(rankings, "own").reshape(makes.pixels.shape)
    for at, c, y, x in np.ndindex(gone.shape):
        fill = round(float(ranked.images.mean[c]))
        assert left[at, y, x, c] == (fill if gone[at, c, y, x] else makes.pixels[at, c, y, x])
    heat = makes.draw_line("map", rankings)
    first = makes.make_masks(rankings, "own").reshape(makes.pixels.shape).all(1)
    assert heat[first].mean() > heat[~first].mean()


def test_read_pictures_names_damaged_rankings_and_shows_others(tmp_path):
    work = rank_in_folder(tmp_path, MORF)
    file = work.rankings.get_folder(work.make_ranking_spec(find_estimator("grad"), UNIT)) / "test.arrow"
    file.write_bytes(file.read_bytes()[:-100])
    found = read_pictures(make_results(MORF, work.images.fingerprint), tmp_path)
    assert found is not None and (found.rows, found.damaged, found.kinds) == (("random",), ("grad",), ("map", "own"))


def test_pictures_of_one_protocol_show_rows_that_another_would_train(tmp_path):
    """`run --protocol morf` ranks the test images alone; the same suite's ROAR, which was not run, needs all."""
    work = rank_in_folder(tmp_path, MORF)
    both = tuple(Block(protocol, ROWS, (0.1, 0.5, 0.9), seeds=2) for protocol in (ROAR, MORF))
    found = make_results(MORF, work.images.fingerprint)
    pictures = read_pictures(replace(found, suite=replace(found.suite, blocks=both)), tmp_path)
    assert pictures is not None and pictures.rows == ("random", "grad")
