"""Estimators that no suite names, on the command line: they stand beside Random once they are asked for."""

import json
from dataclasses import replace

import pytest

from roarbench.plan.choosing import with_added
from roarbench.plan.points import expand
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from tests.helpers.command_line import publish

JOINED = ("gradcam(layer=block1)", "random-smooth(width=0.2)", "input-x-grad")
SMALL = ("--suite", "planted", "--limit", "40")
BLOCKS = (Block(ROAR, ("random", "grad", "grad~blurred"), (0.9,), seeds=1), Block(MASK_ONLY, ("random",), (0.9,), 1))


def test_they_stand_wherever_the_suite_has_random_and_change_no_key():
    suite = find_suite("quick")
    joined = with_added(find_suite("quick"), list(JOINED))
    assert set(expand(suite)) < set(expand(joined))
    for block, added in zip(suite.blocks, joined.blocks, strict=True):
        expected = JOINED if "random" in block.estimators or block.protocol is MASK_ONLY else ()
        assert added.estimators == (*block.estimators, *expected)


def test_what_explains_a_model_has_the_twins_of_the_suite():
    joined = with_added(find_suite("quick@1"), ["gradcam,centre"]).estimators
    assert {"gradcam", "gradcam~blurred", "centre"} <= set(joined)
    assert "centre~blurred" not in joined


@pytest.mark.slow
def test_their_rows_are_run_and_stay_on_the_board(call, monkeypatch, tmp_path):
    planted = replace(find_suite("planted"), blocks=BLOCKS)
    publish(monkeypatch, planted)
    asked = ("random", *JOINED, "gradcam(layer=block9)")
    run = call("run", *SMALL, "--estimators", ",".join(asked), "--store", tmp_path)
    assert run.code == 1  # one has no such block
    assert "layer block9 is not there: the network has blocks 1 to 2" in run.err
    answer = call("table", *SMALL, "--protocol", "roar", "--store", tmp_path, "--format", "json")
    assert answer.code == 0, answer.err
    rows = {row["estimator"]: row for row in json.loads(answer.out)["rows"]}
    assert {*JOINED, "random"} <= set(rows)
    assert all(rows[name]["gain"] is not None for name in JOINED)
    assert rows.get("gradcam(layer=block9)", {"gain": None})["gain"] is None
