"""What speaks against a row whatever is asked: it holds under every protocol, in every format, and travels."""

from dataclasses import replace
from pathlib import Path

import pytest

from leaderboard.judged import board_record
from roarbench.analysis.collecting import collect
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.noisy_copies import with_kept
from roarbench.analysis.validity import panel
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.report.validity_panel import doubts
from roarbench.stats.bootstrap import Bootstrap
from roarbench.store.entries import keep_entry
from roarbench.store.remarks import note_findings
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import Warned, check_source
from tests.helpers.made_up import DATA, LEVELS, MAIN, SUITE, held
from tests.helpers.tables import rows_of

SOURCE = b"NAME = 'edges'\nDESCRIPTION = 'x'\ndef estimate(model, images, targets, generator): return images.abs()\n"
ENTRY = check_source(SOURCE)
NETWORK = "`validate` found: ignores the network, ignores the class"
IMPORTED = "elf-reported: imported and not reproduced here"
NOISE = "fewer than 80%"


def suite_of(protocol):
    return replace(SUITE, blocks=(Block(protocol, (*MAIN, ENTRY.id), LEVELS, seeds=2),))


@pytest.fixture
def stores(tmp_path: Path):
    """A store with an entry that ignores the network, and one that imported it."""
    with (
        ResultsStore.open(default_url(tmp_path / "a")) as here,
        ResultsStore.open(default_url(tmp_path / "b")) as there,
    ):
        for protocol in (ROAR, SPECIFIC):
            made = held(suite_of(protocol)).results
            here.add_all(
                replace(row, rankings="var-grad" * (p.cell.estimator == "var-grad")) for p, row in made.items()
            )
        keep_entry(here.database, ENTRY)
        note_findings(here.database, ENTRY.id, [Warned.CONSTANT])
        note_findings(here.database, ENTRY.id, [Warned.NETWORK, Warned.CLASS])
        for name, kept in (("told", {"var-grad": 0.5}), ("silent", {})):
            export_results(here, tmp_path / f"{name}.parquet", kept)
        import_results(there, tmp_path / "told.parquet")
        yield here, there


def seen(store: ResultsStore, protocol, folder: Path):
    return with_kept(collect(suite_of(protocol), store, data=DATA), folder)


@pytest.mark.parametrize("protocol", [ROAR, SPECIFIC])
def test_every_mark_holds_under_every_protocol_and_in_every_format(stores, tmp_path: Path, protocol) -> None:
    here, there = stores
    own = suite_table(seen(here, protocol, tmp_path), protocol.name, None, None)
    assert own.doubts == {ENTRY.id: f"{NETWORK}."}
    shown = seen(there, protocol, tmp_path)
    table = suite_table(shown, protocol.name, None, None)
    for style, dagger in (("markdown", "†"), ("latex", "dagger"), ("csv", NOISE), ("json", NOISE)):
        text = " ".join(render(table, style).split())
        assert dagger in text and IMPORTED in text and "ignores the network" in text, style
    flags = {name: row["flag"] for name, row in rows_of(table).items()}
    assert NETWORK in flags[ENTRY.id] and NOISE in flags["var-grad"] and NOISE not in flags["grad"]
    assert all(IMPORTED in flag for flag in flags.values())
    (last,) = (line for line in doubts(panel(shown, Bootstrap(50))) if line.startswith(ENTRY.id))
    assert "(!)" in last and NETWORK in last
    board = board_record(Evidence.of(shown, Bootstrap(50)), table)
    said = {row.id: " ".join(doubt.sentence for doubt in row.doubts).replace("\u202f", "") for row in board.rows}
    assert "ignores the network" in said[ENTRY.id] and all(IMPORTED in text for text in said.values())
    assert NOISE in said["var-grad"] and NOISE not in said["grad"]
    assert NETWORK in board.caption and NOISE in board.caption and "var-grad 50%" in board.caption
    assert "†" not in board.caption  # no row of a board has one
