"""The program behind the README's replications: which answers its three methods see."""

from importlib import import_module

import numpy as np
import pytest

from roarbench.stats.curves import UNTOUCHED, Scores


@pytest.fixture
def program():
    return import_module("replication_table")


def scores() -> Scores:
    """Return three trainings on three test images: training s is right on image s alone, and explains network s."""
    bits = np.eye(3, dtype=bool)
    correct = {UNTOUCHED: bits, ("random", 0.9): bits, ("grad", 0.9): bits}
    names = {("grad", 0.9): ("two", "one", "three")}
    return Scores(("random", "grad"), (0.9,), correct, references=names, differences=None)


def test_one_network_keeps_its_own_training_and_all_of_the_controls(program):
    found = program.explaining(scores(), "one")
    np.testing.assert_array_equal(found.correct["grad", 0.9], [[False, True, False]])
    np.testing.assert_array_equal(found.correct["random", 0.9], np.eye(3, dtype=bool))
    assert found.references == {}
    assert program.networks(scores()) == ["one", "three", "two"]


def test_told_of_one_network_all_answers_stay(program):
    found = program.told_of_one(scores())
    assert found.references == {}
    assert found.correct.keys() == scores().correct.keys()
    np.testing.assert_array_equal(found.correct["grad", 0.9], np.eye(3, dtype=bool))
