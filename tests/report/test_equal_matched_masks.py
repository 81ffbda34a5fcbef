"""The note below a stored table of matched gain of few columns."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from roarbench.datasets.catalogue import find_dataset
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.report.table_notes import describe_equal_matched_masks


@pytest.mark.parametrize(
    ("protocol", "data", "columns", "said"),
    [
        (MATCHED, "digits", 8, True),
        (MATCHED, "digits", 9, False),
        (ROAR, "digits", 8, False),
        (MATCHED, "planted", 3, False),
    ],
)
def test_matched_gain_of_few_columns_is_explained(protocol, data, columns, said):
    suite = SimpleNamespace(dataset_record=replace(find_dataset(data), channels=columns))
    table = SimpleNamespace(suite_results=SimpleNamespace(suite=suite), board=SimpleNamespace(protocol=protocol))
    note = "With 8 columns, matched masks are nearly always the own masks: gains are 0 for every map."
    assert describe_equal_matched_masks(table) == (note if said else "")
