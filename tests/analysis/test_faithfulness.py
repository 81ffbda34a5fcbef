"""What of Quantus is shown, and that it touches nothing else on the board."""

import json
from dataclasses import replace

import pytest

from roarbench.analysis.collecting import collect
from roarbench.analysis.faithfulness import IMAGES, METRICS, score_specs
from roarbench.estimators.catalogue import find_estimator
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.store.results import ResultsStore
from roarbench.store.scores import Score
from roarbench.terms import Making
from tests.helpers.made_up import SUITE, held
from tests.helpers.tables import rows_of

PLAIN = held()
VALUES = {"pixel-flipping": 0.23456, "region-perturbation": -0.5, "faithfulness-correlation": None}
SCORED = replace(PLAIN, quantus={"grad": VALUES, "random": {"pixel-flipping": 0.5}})


@pytest.fixture(scope="module")
def plain():
    return suite_table(PLAIN, "roar", None, None)


@pytest.fixture(scope="module")
def scored():
    return suite_table(SCORED, "roar", None, None)


def test_what_is_scored_is_every_estimator_that_has_maps():
    specs = score_specs(SUITE, "da7a")
    mapped = [name for name in SUITE.estimators if name != "random-redrawn"]
    assert list(specs) == [(name, metric.id) for name in mapped for metric in METRICS]
    assert len({spec.key for spec in specs.values()}) == len(specs)
    assert {(spec.data, spec.images) for spec in specs.values()} == {("da7a", IMAGES)}
    assert len({spec.reference for spec in specs.values()}) == 1
    exact, short = score_specs(SUITE, "da7a"), score_specs(replace(SUITE, maps=Making.BF16), "da7a")
    same = {name for name, metric in exact if exact[name, metric].key == short[name, metric].key}
    assert same == {name for name, _ in exact if not find_estimator(name).shared}


def test_a_store_s_scores_are_found_by_images_and_reference(tmp_path):
    specs = score_specs(SUITE, "da7a")
    elsewhere = score_specs(SUITE, "0ther")
    with ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite") as store:
        assert collect(SUITE, store, data="da7a").quantus == {}
        store.scores.add(Score(specs["grad", name], "grad", value, 64, {}) for name, value in VALUES.items())
        store.scores.add([Score(elsewhere["sobel", "pixel-flipping"], "sobel", 1.0, 64, {})])
        found = collect(SUITE, store, data="da7a")
    assert found.quantus == {"grad": VALUES}


def test_json_has_them_in_a_place_of_their_own_and_tables_a_column_for_each_at_the_end(scored):
    kept = rows_of(scored)
    assert kept["grad"]["quantus"] == VALUES
    assert kept["random"]["quantus"] == dict.fromkeys(VALUES) | {"pixel-flipping": 0.5}
    assert kept["sobel"]["quantus"] == dict.fromkeys(VALUES)
    found = rows_of(scored, "csv")
    assert list(found["grad"])[-3:] == [f"quantus_{metric.id}" for metric in METRICS]
    assert [found["grad"][f"quantus_{name}"] for name in VALUES] == ["0.23456", "-0.5", ""]
    lines = render(scored, "markdown").splitlines()
    assert lines[2].endswith("| above masks t=0.9 | PF ↓ | RP ↑ | FC ↑ |")
    (grad,) = (line for line in lines if "| grad |" in line or "| grad (!) |" in line)
    assert grad.endswith("| 0.235 | -0.500 | – |")


def test_nothing_else_on_the_board_changes(plain, scored):
    """Not gain, place, verdict or flag, not even with scores that say the opposite."""
    before, after = (json.loads(render(table, "json")) for table in (plain, scored))
    for row in after["rows"]:
        assert row.pop("quantus")
    assert after == before
    assert scored.flags == plain.flags
