"""How many noisy copies keep their class, from rankings on disk to the mark of a row."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.noisy_copies import with_kept
from roarbench.report.table import suite_table
from roarbench.store.layout import Workspace
from roarbench.store.map_provenance import MapProvenance
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.rankings import RankingsStore
from roarbench.terms import PAPER_LEVELS, Split, Unit
from tests.helpers.made_up import held
from tests.helpers.tables import rows_of, words_of


def sealed(folder: Path, name: str, kept: list[int]) -> str:
    """Write rankings of four test images whose copies keep their class so often; return their checksum."""
    spec = RankingSpec(
        "d" * 32, f"{sum(kept):0>32}", "e" * 32, name, Unit.SCALAR, PAPER_LEVELS, (1, 2, 2), (Split.TEST,)
    )
    store = RankingsStore(Workspace(folder).rankings)
    planes = np.full((4, spec.layout.planes, spec.layout.width), sum(kept) % 251, np.uint8)
    store.write_part(spec, Split.TEST, 0, 4, planes, MapProvenance(0.0, kept=kept))
    store.seal(spec, {Split.TEST: 4})
    return store.open(spec).checksum


@pytest.fixture
def stored(tmp_path: Path) -> SuiteResults:
    """Results whose `var-grad` has two rankings with 40 and 44 of 60 copies kept, whose `grad` has no copies."""
    low, high = (sealed(tmp_path, "var-grad", kept) for kept in ([15, 15, 10, 0], [15, 15, 14, 0]))
    other = sealed(tmp_path, "grad", [])
    results = held()
    rankings = {"var-grad": (low, high), "grad": (other, other), "sobel": ("gone", "gone")}
    marked = {
        point: replace(row, rankings=rankings.get(point.cell.estimator, ("", ""))[point.seed % 2])
        for point, row in results.results.items()
    }
    return with_kept(replace(results, results=marked), tmp_path)


def test_a_row_below_80_percent_of_all_its_rankings_is_marked_with_its_number(stored: SuiteResults) -> None:
    assert stored.kept == {"var-grad": pytest.approx((40 + 44) / 120)}
    assert with_kept(held(), Path("none")).kept == {}
    words = "† The explained network keeps its prediction on fewer than 80% of the noisy copies: var-grad 70%."
    text = words_of(suite_table(stored, "roar", None, None))
    assert words in text
    assert text.count("†") == 2
    assert "var-grad †" in text
    shown = suite_table(stored, "roar", None, None)
    rows = rows_of(shown)
    assert (rows["var-grad"]["kept"], rows["grad"]["kept"]) == (pytest.approx(0.7), None)
    assert "†" not in words_of(suite_table(replace(stored, kept={"var-grad": 0.8}), "roar", None, None))
    assert "†" not in words_of(suite_table(replace(stored, kept={}), "roar", None, None))
