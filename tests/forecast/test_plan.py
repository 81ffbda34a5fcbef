"""What a plan says: hand-made rates, in words and as a record."""

import json
from dataclasses import replace

from roarbench.analysis.boards import SuiteResults
from roarbench.forecast.plan import Plan, missing_work
from roarbench.forecast.rates import Rates
from roarbench.forecast.workload import Work
from roarbench.plan.points import expand
from roarbench.plan.suites import find_suite
from roarbench.store.layout import Workspace
from tests.helpers.tiny_suite import RECORD, TEST, TRAIN, make_work, rank_all

WORK = Work(*[0] * len(Work._fields))._replace(
    **{"trainings": 9, "references": 1, "scorings": 2, "images_decoded": 100, "images_reference": 60},
    **{"images_retrained": 3600, "images_scored": 10, "images_explained": 7200, "images_ranked": 20},
    **{"disk": 5_000_000, "sealing": 3_000_000, "memory": 2 * 10**9, "images": 3 * 10**9, "planes": 10**9},
    train=10_000,
)
HERE = Rates("one core", 0, "", decode=0.1, train=1.0, predict=1.0, explain=0.5, draw=2.0, rank=1.0)
PLAN = Plan("hand v1", 12, 3, WORK, 1.77e21, (HERE,), workers=2)


def test_a_plan_in_words():
    lines = [line.split() for line in PLAN.text().splitlines()]
    assert PLAN.text().splitlines()[0] == "hand v1: 12 runs, 3 done, 9 to do"
    assert lines[1] == ["one", "core"]
    assert [" ".join(line) for line in lines[2:8]] == [
        "decode 100 images 10 s",
        "reference 60 images 60 s",
        "attribution 7,200 passes 60 min",
        "ranking 20 rankings 20 s",
        "retraining 8 trainings, 3,600 images 60 min",
        "scoring 10 images 10 s",
    ]
    assert PLAN.text().splitlines()[8:] == [
        "  together about 61 min by the clock with 2 workers, by a measurement just now",
        "  disk 5 MB, up to 11 MB while rankings are joined; memory 2.0 GB a worker, and for all"
        " of them 3.0 GB of images and 1.0 GB a ranking in use, else read from disk each epoch",
        "  1.8e+21 floating-point operations",
    ]
    two = replace(PLAN, estimates=(HERE, replace(HERE, device="one GPU"))).text()
    assert "  retraining  8 trainings, 3,600 images    60 min   60 min" in two.splitlines()


def test_noise_is_drawn_by_the_cores():
    noisy = replace(PLAN, work=WORK._replace(copies_drawn=150))
    (line,) = (line for line in noisy.text().splitlines() if line.startswith("  noise"))
    assert line.split() == ["noise", "150", "noisy", "copies", "5", "min"]
    gpu = replace(HERE, device="a GPU", gpus=4)
    assert noisy.wall(gpu) - PLAN.wall(gpu) == noisy.wall(HERE) - PLAN.wall(HERE) == 150 * 2.0 / 2


def test_maps_of_a_submission_are_as_slow_as_they_were_measured():
    submitted = replace(PLAN, work=WORK._replace(images_submitted=40))
    (line,) = (line for line in submitted.text().splitlines() if line.startswith("  submission"))
    assert line.split() == ["submission", "40", "maps", "by", "its", "own", "code", "not", "measured"]
    assert ", by a measurement just now, without what is not measured\n" in submitted.text()
    assert submitted.wall(HERE) == PLAN.wall(HERE)
    assert submitted.record()["estimates"][0]["parts"]["submission"] is None
    measured = replace(HERE, submission=2.0)
    known = replace(submitted, estimates=(measured,))
    assert known.wall(measured) == PLAN.wall(HERE) + 40 * 2.0 / 2
    assert "own code" in known.text() and "80 s" in known.text() and "not measured" not in known.text()


def test_what_is_assumed_is_said_and_long_times_are_days():
    guess = replace(HERE, device="a GPU", gpus=2, basis="a guess", train=3600.0)
    text = replace(PLAN, estimates=(HERE, guess)).text()
    assert "by a measurement just now" in text
    assert "together about 1,831 h (76 days) by the clock with 2 GPUs and 2 workers, assuming a guess" in text
    found = json.loads(json.dumps(PLAN.record()))
    assert (found["suite"], found["runs"], found["done"], found["seconds"]) == ("hand v1", 12, 3, 3650)
    work = found["work"]
    assert (work["trainings"], work["images_trained"], work["core_seconds"]) == (9, 3660, 7300)
    assert (found["rates"]["measured"], found["estimates"][0]["parts"]["attribution"]) == (True, 3600)


def test_images_that_were_decoded_elsewhere_are_decoded_again(tmp_path):
    suite = find_suite("planted")
    held = SuiteResults(suite, "f" * 32, 8, {expand(suite)[-1]: None})  # a result of them is here, imported
    assert missing_work(held, Workspace(tmp_path)).images_decoded == 0
    assert missing_work(held, Workspace(tmp_path), to_decode=True).images_decoded == 16


def test_rankings_that_the_folder_has_are_not_counted_again(tmp_path, monkeypatch):
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: RECORD)
    work = make_work(tmp_path)
    rank_all(work, "random")
    held = SuiteResults(work.suite, work.images.fingerprint, None, {})
    fresh, again = (missing_work(held, Workspace(folder)) for folder in (tmp_path / "none", tmp_path))
    assert fresh.images_ranked - again.images_ranked == TRAIN + TEST
