"""Commands on a suite that leads with ROAR and own-network gain."""

import pytest

from roarbench.plan.suite import Block, Suite
from roarbench.protocols.own_network import OWN_NETWORK
from roarbench.protocols.roar import ROAR
from tests.helpers.command_line import command

BLOCKS = (
    Block(ROAR, ("random", "grad"), (0.9,), seeds=2),
    Block(OWN_NETWORK, ("random", "grad", "input-x-grad"), (0.3,), seeds=1),
)
PUBLISHED = Suite("both", 1, "", "planted", "resnet-planted", "planted@1", "planted@1", BLOCKS, references=3)
ASKED = ("--suite", "both", "--limit", "16")


@pytest.fixture(scope="module")
def run(published, tmp_path_factory):
    """The store of a finished run, and what the run printed."""
    store = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roarbench.execution.progress._LINE_EVERY", 0.0)
        said = []
        patch.setattr("roarbench.cli.commands.terminal.err.print", lambda *text, **_: said.append(text[0]))
        assert command("run", *ASKED, "--store", store) == 0
    return store, said


def test_a_run_shows_roars_table_before_own_network_gain_is_scored(run):
    """The progress line says which question is computed; the table comes once, after the last training."""
    _, said = run
    lines = [each if isinstance(each, str) else each.caption for each in said]
    (table,) = (number for number, each in enumerate(said) if not isinstance(each, str))
    roar, own = (
        [number for number, line in enumerate(lines) if f"{title}: {done} " in line]
        for title, done in (("ROAR", "trained"), ("Own-network gain", "scored"))
    )
    assert len(roar) == 2 * 3  # untouched images and two rows, by two seeds
    assert max(roar) < table < max(own)
    assert [column.header for column in said[table].columns][:3] == ["place", "estimator", "gain [95%]"]
