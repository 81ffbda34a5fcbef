"""How fast the results store is: `pytest benchmarks/test_results_store.py -o addopts= --benchmark-columns=min,mean`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roarbench.plan.runs import Cell, Run
from roarbench.store.leases import Owner
from roarbench.store.provenance import provenance
from roarbench.store.result import Result, pack_answers
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Order, Retrain, Unit
from tests.helpers.leasing import lease

IMAGES = 4000  # 500 bytes of bits
ROWS = 10_000
MANY = 100_000


def make_results(count: int) -> Iterator[Result]:
    answers = np.random.default_rng(0).random(IMAGES) < 0.5
    cell = Cell("cifar10", "resnet8", "var-grad", Order.MORF, Retrain.IMAGES, "mean", Unit.SCALAR, 0.9)
    run = Run(cell, 0, "fast@1", "d" * 32, "e" * 32, "f" * 32)
    first = Result(run, int(answers.sum()), IMAGES, pack_answers(answers), 17.5, provenance())
    return (replace(first, run=replace(run, seed=seed)) for seed in range(count))


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[ResultsStore]:
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ResultsStore, list[str]]]:
    with ResultsStore.open(default_url(tmp_path_factory.mktemp("full"))) as store:
        store.add_all(make_results(MANY))
        yield store, [result.run.key for result in make_results(MANY)]


def test_add_one_by_one(benchmark: Any, empty: ResultsStore) -> None:
    results = list(make_results(ROWS))
    assert all(benchmark.pedantic(lambda: [empty.add(result) for result in results]))


def test_add_all_at_once(benchmark: Any, empty: ResultsStore) -> None:
    results = list(make_results(ROWS))
    assert len(benchmark.pedantic(lambda: empty.add_all(results))) == ROWS


def test_done_over_many_rows(benchmark: Any, full: tuple[ResultsStore, list[str]]) -> None:
    store, keys = full
    assert len(benchmark.pedantic(lambda: store.done(keys), rounds=3)) == MANY


def test_done_over_many_rows_for_a_suite(benchmark: Any, full: tuple[ResultsStore, list[str]]) -> None:
    store, keys = full
    assert len(benchmark.pedantic(lambda: store.done(keys[:1000]), rounds=10)) == 1000


def test_results_of_a_large_board(benchmark: Any, full: tuple[ResultsStore, list[str]]) -> None:
    store, keys = full
    assert len(benchmark.pedantic(lambda: store.results(keys[:25_000]))) == 25_000


def test_state_over_many_rows(benchmark: Any, full: tuple[ResultsStore, list[str]]) -> None:
    store, _ = full
    assert benchmark.pedantic(store.state, rounds=10)


def test_claim_one(benchmark: Any, full: tuple[ResultsStore, list[str]]) -> None:
    store, keys = full
    owner = Owner.here()
    assert benchmark.pedantic(lambda: lease(store, [keys[0]], owner), rounds=10) == set()
