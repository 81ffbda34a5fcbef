"""The verdict on a reproduced run: single images must agree as between two machines."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from roarbench.common.enums import Order, ScoredNetwork
from roarbench.execution.reproduction import Reproduction, _estimate_run_deviation
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.export_and_import import ExportedFile
from roarbench.store.results import ReproductionOutcome, ResultsStore
from roarbench.store.run_result import RunResult, pack_correctness, pack_probabilities
from tests.helpers.processes import ROOT
from tests.helpers.store_rows import ORIGIN, make_run, set_correctness

EQUAL, WITHIN, DIFFERENT, INCOMPARABLE = ReproductionOutcome
HERE = replace(ORIGIN, hardware={"cpu": "some", "cores": 2, "device": "cpu", "precision": "float32"})
ELSEWHERE = replace(HERE, hardware={**HERE.hardware, "cpu": "other"})


def make_siblings_result(correctness):
    """Return a result without training; `correctness` says which predictions were kept."""
    run = make_run(t=0.5)
    run = replace(run, cell=replace(run.cell, retrain=ScoredNetwork.SIBLINGS, order=Order.MORF))
    bits, correct = pack_correctness(correctness), int(correctness.sum())
    return RunResult(run, correct, len(correctness), bits, 1.0, HERE, rankings="7a4c", weights="3e16")


def make_trained_result(correctness):
    row = make_siblings_result(correctness)
    return replace(row, run=replace(row.run, cell=replace(row.run.cell, retrain=ScoredNetwork.IMAGES)))


def flip(correctness, count, value=None, seed=1):
    """Flip `count` random images, or only images with this value."""
    images = np.arange(len(correctness)) if value is None else np.flatnonzero(correctness == value)
    chosen = np.random.default_rng(seed).choice(images, count, replace=False)
    return correctness ^ np.isin(np.arange(len(correctness)), chosen)


@pytest.fixture
def honest():
    """562 of 2,000 predictions are correct, as in a published run of noise."""
    return np.random.default_rng(0).permutation(np.arange(2000) < 562)


def test_equal_results_are_equal_and_other_rankings_or_seconds_are_not_a_reason(honest):
    stored = make_siblings_result(honest)
    assert Reproduction(stored, replace(stored, seconds=9.0)).verdict is EQUAL
    other = Reproduction(stored, replace(stored, rankings="x"))
    assert (other.verdict, other.reason) == (WITHIN, "")
    said = other.format_report().splitlines()[:2]  # nothing is trained and no image differs, so chance has no share
    assert said[0].endswith("562 of 2000 predictions kept, 562 in the stored run")
    assert said[1] == "  kept predictions differ on no images (limit: 162 of 2,000), other rankings"


@pytest.mark.parametrize("origin", [HERE, ELSEWHERE])
@pytest.mark.parametrize("make", [make_siblings_result, make_trained_result])
def test_forged_images_with_equal_accuracy_are_different(honest, make, origin):
    """The gain depends on single images, so an equal number of correct predictions shows nothing."""
    forged = np.random.default_rng(2).permutation(honest)
    again = replace(make(honest), provenance=origin)
    reproduction = Reproduction(make(forged), again, deviation=0.01)
    assert reproduction.stored.correct == reproduction.again.correct
    assert reproduction.differing > 700
    assert reproduction.verdict is DIFFERENT
    assert f"why: {reproduction.reason}" in reproduction.format_report()


@pytest.mark.parametrize("weights", ["3e16", "another network", ""])
def test_scrambled_and_moved_images_are_different(honest, weights):
    """Differing images must not widen the margin: 80 correct predictions fewer, and all others scrambled."""
    moved = flip(np.random.default_rng(3).permutation(honest), 80, value=True)
    for make in (make_siblings_result, make_trained_result):
        again = replace(make(honest), provenance=ELSEWHERE, weights=weights)
        comparable = weights != "another network" or make is make_trained_result
        assert Reproduction(make(moved), again).verdict is (DIFFERENT if comparable else INCOMPARABLE)


def test_other_number_of_images_or_passes_is_different(honest):
    """An import of these rows alone is accepted, since nothing tells it how many images there are."""
    stored = make_siblings_result(honest)
    reproduction = Reproduction(make_siblings_result(flip(honest, 3)[:-7]), stored)
    assert reproduction.verdict is DIFFERENT
    said = reproduction.format_report().splitlines()
    assert said[1].startswith("  kept predictions differ on 10 images")
    assert said[-1] == "  why: the stored run has 1,993 test images, and its images are 2,000"
    for passes, verdict in (((2, 100), DIFFERENT), ((0, 4), DIFFERENT), ((4, 4.1), EQUAL), (None, EQUAL)):
        assert Reproduction(stored, stored, passes=passes).verdict is verdict, passes
    reason = Reproduction(stored, stored, passes=(2.0, 4.0)).reason
    assert reason == "the stored maps took 2 passes per image, and 4 are counted here"


def test_margin_counts_only_images_that_may_differ(honest):
    """Images that differ at random add to the margin, but too many of them are a reason by themselves."""
    stored = make_siblings_result(honest)
    few, one_way, many = (flip(honest, 60), flip(honest, 60, value=True), flip(honest, 400))
    reproductions = [
        Reproduction(stored, replace(set_correctness(stored, bits), provenance=ELSEWHERE))
        for bits in (few, one_way, many)
    ]
    assert [each.verdict for each in reproductions] == [WITHIN, DIFFERENT, DIFFERENT]
    assert reproductions[1].reason == "the accuracies differ by more than chance"
    assert reproductions[2].reason.startswith("too many images differ")
    assert reproductions[0].margin == pytest.approx(3.29 * np.sqrt(60) / 2000)
    unrelated = 562 * (1 - reproductions[2].again.correct / 2000) + reproductions[2].again.correct * (1 - 562 / 2000)
    assert reproductions[2].margin == pytest.approx(3.29 * np.sqrt(1 + 0.2 * unrelated) / 2000)
    wide = replace(reproductions[1], deviation=0.02)
    assert wide.margin == pytest.approx(3.29 * np.sqrt(2 * 0.02**2 + 60 / 2000**2))
    assert wide.verdict is WITHIN


def test_on_few_images_only_equal_predictions_confirm_a_run():
    """At 28 % correct, unrelated trained results differ on 40.3 +- 4.9 of 100 images, and 33 may differ."""
    for count, verdict in ((100, INCOMPARABLE), (200, WITHIN)):  # of 200 images, 80.6 +- 6.9 and 65
        correctness = np.arange(count) < 28 * count // 100
        stored = make_trained_result(correctness)
        swapped = correctness.copy()
        swapped[[0, -1]] = swapped[[-1, 0]]
        near = Reproduction(stored, replace(set_correctness(stored, swapped), provenance=ELSEWHERE))
        few = "too few images to tell: correctness may differ on 33 of 100, and unrelated results differ on about 40"
        assert (near.differing, near.verdict, near.reason) == (2, verdict, few if count == 100 else "")
        far = Reproduction(stored, replace(set_correctness(stored, ~correctness), provenance=ELSEWHERE))
        assert (far.verdict, Reproduction(stored, replace(stored, rankings="x")).verdict) == (DIFFERENT, WITHIN)


def test_unknown_training_noise_accuses_nobody_and_is_not_zero(honest):
    """A reviewer's store has imported results alone, whose variance their authors could claim."""
    stored = make_trained_result(honest)
    near, far = (set_correctness(stored, bits) for bits in (flip(honest, 60), flip(honest, 60, value=True)))
    runs = [replace(again, provenance=ELSEWHERE) for again in (near, far)]
    unknown = [Reproduction(stored, again, deviation=None) for again in runs]
    assert [each.verdict for each in unknown] == [WITHIN, INCOMPARABLE]
    assert "how much trainings differ is unknown" in unknown[1].reason
    assert "how much trainings differ by chance is unknown" in unknown[1].format_report()
    assert "points" not in unknown[1].format_report()
    assert Reproduction(stored, runs[1], deviation=0.0).verdict is DIFFERENT
    forged = replace(make_trained_result(np.random.default_rng(2).permutation(honest)), provenance=ELSEWHERE)
    assert Reproduction(stored, forged, deviation=None).verdict is DIFFERENT


def test_same_processor_must_give_same_predictions(honest):
    stored = make_siblings_result(honest)
    nearly = set_correctness(stored, flip(honest, 2))
    assert Reproduction(stored, nearly).reason == "the same versions and processor give the same predictions"
    gpu = replace(HERE, hardware={**HERE.hardware, "device": "some card"})
    given = replace(stored.run, given="file@1a2b3c4d")
    common = replace(stored.run, cell=replace(stored.run.cell, retrain=ScoredNetwork.COMMON))
    excused = [
        Reproduction(stored, replace(nearly, provenance=ELSEWHERE)),
        Reproduction(replace(stored, provenance=gpu), replace(nearly, provenance=gpu)),
        Reproduction(replace(stored, run=given), replace(nearly, run=given)),
        Reproduction(replace(stored, run=common), replace(nearly, run=common)),
    ]
    assert [each.verdict for each in excused] == [WITHIN] * 4
    # equal weights show equal arithmetic only if both machines trained them
    assert Reproduction(stored, nearly, reused=("3e16",)).verdict is WITHIN
    far = set_correctness(stored, flip(honest, 400))
    assert Reproduction(stored, far, reused=("3e16",)).reason.startswith("too many images differ")
    changed = Reproduction(replace(stored, run=common), replace(nearly, run=common, rankings="x"))
    assert changed.verdict is DIFFERENT
    assert excused[0].version_and_hardware_differences == ["cpu was some, is now other"]


def test_maps_from_the_clock_are_different_on_equal_hardware(honest):
    """Random maps without the generator gave 507 and 508 correct predictions, and 239 differing images."""
    for make in (make_siblings_result, make_trained_result):
        stored = make(honest)
        again = replace(set_correctness(stored, flip(honest, 239)), rankings="x")
        assert Reproduction(stored, again, deviation=0.01).verdict is DIFFERENT
    without_training = make_siblings_result(honest)
    claimed = replace(set_correctness(without_training, flip(honest, 239)), rankings="x", provenance=ELSEWHERE)
    assert Reproduction(without_training, claimed).reason.startswith("too many images differ")


def test_another_network_confirms_no_run_without_training(honest):
    stored = make_siblings_result(honest)
    again = replace(set_correctness(stored, flip(honest, 2)), weights="another", provenance=ELSEWHERE)
    for other in (again, replace(stored, weights="another", rankings="x")):
        assert "other weights" in Reproduction(stored, other).reason
        assert Reproduction(stored, other).verdict is INCOMPARABLE
    trained = make_trained_result(honest)
    assert Reproduction(trained, replace(again, run=trained.run)).verdict is WITHIN


def test_forged_probabilities_are_different(honest):
    """The probability drop is computed from probabilities, with equal bits."""
    true = np.random.default_rng(4).random(2000, dtype=np.float32)
    stored = make_siblings_result(honest)
    again = replace(stored, provenance=ELSEWHERE, probability=pack_probabilities(true))
    lower, scrambled, rounded = true * 0.95, np.random.default_rng(5).permutation(true), true + np.float32(1e-5)
    outcomes = [
        Reproduction(replace(stored, probability=pack_probabilities(forged)), again)
        for forged in (lower, scrambled, rounded, true)
    ]
    assert [each.verdict for each in outcomes] == [DIFFERENT, DIFFERENT, WITHIN, EQUAL]
    assert "probabilities" in outcomes[0].reason


@cache
def read_rows(path):
    return {row.run.key: row for row in ExportedFile(ROOT / path).read_results()}


def read_published_rows(suite, *parts):
    paths = sorted((ROOT / "results" / suite / "1").glob("*.parquet"))
    chosen = [path for path in paths if any(part in path.name for part in parts)]
    return {key: row for path in chosen for key, row in read_rows(path.relative_to(ROOT)).items()}


@pytest.mark.parametrize(
    ("suite", "study", "count"),
    [
        ("benchmark-imagenette64", "imagenette64-roar-epyc", 60),
        ("benchmark-imagenette64", "imagenette64-kar-xeon", 33),
        ("benchmark-cifar10", "cifar10-roar-xeon", 39),
    ],
)
def test_honest_training_runs_of_two_machines_are_accepted(suite, study, count, tmp_path):
    published = read_published_rows(suite, "roar", "kar")
    again = read_rows(f"studies/paper/{study}.parquet")
    spec = find_builtin_suite(suite)
    deviations, reproductions = {}, []
    with ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite") as store:
        store.add_results(list(published.values()))
        for key, row in again.items():
            stored = published[key]
            known = (stored.run.cell.order, stored.run.cell.t, stored.rankings != row.rankings, bool(stored.weights))
            if known not in deviations:
                deviations[known] = _estimate_run_deviation(store, spec, stored, row)
            reproductions.append(Reproduction(stored, row, deviations[known]))
    assert len(reproductions) == count
    assert all(each.differing for each in reproductions)
    assert {each.reason for each in reproductions} == {""}


def test_honest_runs_without_training_of_two_machines_are_accepted():
    published = read_published_rows("benchmark-imagenette64", "own-network", "without-retraining")
    again = read_rows("studies/paper/imagenette64-own-network-h100.parquet")
    reproductions = [Reproduction(published[key], row) for key, row in again.items()]
    assert len(reproductions) == 1005
    assert {each.reason for each in reproductions} == {""}
    assert sum(each.differing > 0 for each in reproductions) > 800
