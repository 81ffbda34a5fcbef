"""The page of estimators is held to the table: every estimator, its parameters and its passes."""

import re
from pathlib import Path

import estimator_costs
import pytest
from marked import between

from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.parameters import PARAMETERS, written

PAGE = (Path(__file__).parents[1] / "docs" / "estimators.md").read_text()
TABLE = between(PAGE, *estimator_costs.MARKS)


def test_the_page_has_every_estimator_with_its_passes():
    shown = re.findall(r"^\| `([\w-]+)` \| .* \| ([^|]+) \| [\d.e+-]+ \|$", TABLE, re.MULTILINE)
    expected = [name for name, row in ESTIMATORS.items() if row.placed and row.base not in ("truth", "leak")]
    assert [name for name, _ in shown] == expected
    assert dict(shown) == {name: estimator_costs.cost(find_estimator(name)) for name in expected}


def test_a_row_by_hand():
    row = find_estimator("gradcam")
    expected = f"| `gradcam` | {row.about} | layer=last | 1, 1 | 0.34 |"
    assert estimator_costs.table([(row, 0.3449)]).splitlines()[2] == expected
    assert expected.rpartition(" | ")[0] in TABLE


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_page_has_every_parameter(name):
    assert f"| `{name}` | {PARAMETERS[name].about} | {PARAMETERS[name].expected} |\n" in PAGE


def test_defaults_on_the_page_are_those_of_the_table():
    for name, row in ESTIMATORS.items():
        if row.parameters and f"| `{name}` |" in TABLE:
            values = ", ".join(f"{key}={written(value)}" for key, value in row.parameters.items())
            assert f"| {row.about} | {values} |" in TABLE
