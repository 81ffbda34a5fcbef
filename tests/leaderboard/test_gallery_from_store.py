"""The gallery as it is read from a store's own images and rankings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leaderboard.gallery import IMAGES, gallery_file, read_gallery, save_gallery
from leaderboard.snapshot import SuiteView
from leaderboard.source import read_suites
from leaderboard.static_pages import gallery_page
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.collecting import collect
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decoded import ImageData
from roarbench.datasets.loading import decode_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import jobs, shards
from roarbench.kernels.ranking import encode, removed_count, sort_keys, tie_order
from roarbench.plan.runs import Run
from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites import SUITES
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.store.layout import Workspace
from roarbench.store.map_provenance import MapProvenance
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore
from roarbench.store.specs import ranking_spec
from roarbench.terms import Making, Split, Unit
from tests.helpers.board_store import results
from tests.helpers.tiny_suite import SUITE, TEST, make_context

COUNT = 8  # images of each split


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ImageData:
    folder = tmp_path_factory.mktemp("planted")
    return decode_dataset(find_dataset("planted"), Workspace(folder).data, None, COUNT)


@pytest.fixture(scope="module")
def suite_results(data: ImageData) -> SuiteResults:
    """The planted suite on these images, with one result."""
    suite = SUITES["planted"]
    made = next(iter(results(suite, 20, limit=COUNT).values()))
    run: Run = replace(made.run, data=data.fingerprint)
    with ResultsStore.open(f"sqlite:///{data.folder.parents[1]}/results.sqlite") as store:
        store.add(replace(made, run=run))
        return read_suites(store, data.folder.parents[1])[f"planted-v1-small-{COUNT}"]


def rank_truth(suite_results: SuiteResults, data: ImageData) -> None:
    spec = ranking_spec(suite_results.suite, data, find_estimator("truth"), Unit.SCALAR)
    store = RankingsStore(Workspace(data.folder.parents[1]).rankings)
    for split, images in ((Split.TRAIN, data.train), (Split.TEST, data.test)):
        flat = np.array(images.truth).reshape(len(images.labels), -1)
        keys = sort_keys(flat, tie_order(np.arange(len(flat)), spec.layout.features))
        store.write_part(spec, split, 0, len(flat), encode(keys, spec.layout), MapProvenance(0.5))
    store.seal(spec, {Split.TRAIN: len(data.train.labels), Split.TEST: len(data.test.labels)})


def test_a_strip_from_images_and_rankings(suite_results: SuiteResults, data: ImageData) -> None:
    folder = data.folder.parents[1]
    assert read_gallery(suite_results, folder) is None  # nothing is ranked yet
    rank_truth(suite_results, data)
    gallery = read_gallery(suite_results, folder)
    assert len(gallery.numbers) == IMAGES and gallery.numbers[0] == 0 and gallery.numbers[-1] == COUNT - 1
    np.testing.assert_array_equal(gallery.pixels, data.test.pixels[list(gallery.numbers)])
    assert list(gallery.planes) == ["truth"]
    assert gallery.seconds["truth"] == pytest.approx(1000 * 1.0 / (2 * COUNT))
    for image, number in enumerate(gallery.numbers):
        truth = np.array(data.test.truth[number])
        count = removed_count(0.5, truth.size)
        np.testing.assert_array_equal(gallery.removed("truth", 0.5)[image], truth >= np.sort(truth.ravel())[-count])
    save_gallery(gallery, gallery_file(suite_results, folder / "demo"))
    again = read_gallery(suite_results, folder / "demo")
    np.testing.assert_array_equal(again.degraded("truth", 0.9), gallery.degraded("truth", 0.9))


NO_TRAINING = replace(SUITE, blocks=(Block(MORF, ("random", "grad"), (0.9,), seeds=1),))
PIXELS = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.25, 0.9), seeds=1, unit=Unit.PIXEL),))


@pytest.mark.slow
@pytest.mark.parametrize("suite", [NO_TRAINING, PIXELS, replace(NO_TRAINING, maps=Making.BF16)])
def test_the_strip_has_the_rankings_that_a_run_makes(tmp_path: Path, suite: Suite) -> None:
    """Whatever splits, unit, levels, size of images and precision of maps they have."""
    context = make_context(tmp_path, suite)
    jobs.train_reference(context)
    unit = suite.blocks[0].unit
    for name in ("random", "grad"):
        spec = context.ranking_spec(find_estimator(name), unit)
        for split in context.splits:
            shards.rank_shard(context, [spec], split, 0, len(context.images(split).labels))
        shards.seal(context, spec)
    gallery = read_gallery(SuiteResults(suite, context.data.fingerprint, None, {}), tmp_path)
    assert gallery is not None and list(gallery.planes) == ["random", "grad"]
    found = context.rankings.open(context.ranking_spec(find_estimator("grad"), unit))
    np.testing.assert_array_equal(gallery.planes["grad"], found.planes(Split.TEST)[list(gallery.numbers)])
    assert gallery.damaged == ()


def test_a_ranking_that_is_damaged_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    context = make_context(tmp_path, NO_TRAINING)
    jobs.train_reference(context)

    def shown() -> SuiteView:
        return SuiteView(SuiteResults(NO_TRAINING, context.data.fingerprint, None, {}), tmp_path)

    files = []
    for name in ("random", "grad"):
        spec = context.ranking_spec(find_estimator(name), Unit.SCALAR)
        shards.rank_shard(context, [spec], Split.TEST, 0, TEST)
        shards.seal(context, spec)
        files.append(context.rankings.folder(spec) / "test.arrow")
    assert gallery_page(shown(), str)["damaged"] == ""
    files[1].write_bytes(files[1].read_bytes()[:-100])
    gallery = shown().gallery
    assert gallery is not None and (list(gallery.planes), gallery.damaged) == (["random"], ("grad",))
    assert gallery_page(shown(), str)["damaged"] == "Not shown, as their rankings are damaged: grad."
    files[0].unlink()
    assert gallery_page(shown(), str)["damaged"] == "Not shown, as their rankings are damaged: random, grad."


def test_a_suite_without_results_is_not_read(tmp_path: Path) -> None:
    with ResultsStore.open(f"sqlite:///{tmp_path}/r.sqlite") as store:
        assert not collect(SUITES["planted"], store).results
        assert not read_suites(store, tmp_path)
