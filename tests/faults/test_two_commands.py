"""Two commands on one database share the shards; the program that measures it counts them right."""

import time
from collections import Counter
from functools import partial
from importlib import import_module
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import ModuleType

import pytest

from roarbench.execution import importance, shards
from roarbench.execution import job_graph as graph
from roarbench.execution import leasing as claims
from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore
from tests.helpers import forked
from tests.helpers.commands import PATIENCE, eventually

PART = ("--suite", "planted", "--limit", "40", "--estimators", "truth", "--seeds", "1", "--workers", "1")
IMAGES = 4  # of a shard
SECONDS = 0.4  # that each takes at least, so that both commands are equally fast on any machine

rank_shard = shards.rank_shard


@pytest.fixture
def program() -> ModuleType:
    return import_module("two_commands")


def slow_shard(*arguments: object) -> object:
    time.sleep(SECONDS)
    return rank_shard(*arguments)


def slow_down() -> None:
    """Make shards small and slow."""
    graph.SHARD, shards.rank_shard = IMAGES, slow_shard
    for module in (shards, importance, graph, claims):
        module.EXPLAINED = IMAGES


def begin_together(barrier: Barrier) -> None:
    """Make shards small and slow, and the first claim wait for that of the other command."""
    claim = ResultsStore.claim
    slow_down()

    def late(store: ResultsStore, *asked: object) -> object:
        ResultsStore.claim = claim
        barrier.wait(PATIENCE)
        return claim(store, *asked)

    ResultsStore.claim = late


@pytest.mark.process
@pytest.mark.postgres
def test_each_of_two_commands_makes_its_share_of_the_shards(program, postgres_url: str, tmp_path: Path):
    """Of 20, on a machine that may be busy; the scheduler's own test has two engines that take turns."""
    program.log_leases(postgres_url)
    words = ("run", *PART, "--store", tmp_path / "store", "--db", postgres_url)
    before = partial(begin_together, forked.CONTEXT.Barrier(2))
    commands = [forked.start(words, tmp_path / f"{number}.log", before) for number in range(2)]
    for number, command in enumerate(commands):
        command.join(PATIENCE)
        assert command.exitcode == 0, (tmp_path / f"{number}.log").read_text()
    one, two = program.leased(postgres_url)
    needless = one["rank"] + two["rank"] - 2 * 40 // IMAGES  # leased as another ended it: looked at and left
    assert 0 <= needless <= 2
    assert min(one["rank"], two["rank"]) >= 0.4 * (one["rank"] + two["rank"])
    assert min(one["run"], two["run"]) > 0


@pytest.mark.process
def test_a_second_folder_is_refused_at_its_start_and_the_first_goes_on(store_url: str, tmp_path: Path):
    words = {name: ("run", *PART, "--db", store_url, "--store", tmp_path / name) for name in ("one", "two")}
    first = forked.start(words["one"], tmp_path / "one.log", slow_down)
    with ResultsStore.open(store_url) as store:
        assert eventually(lambda: bool(store.running()))
        second = forked.start(words["two"], tmp_path / "two.log")
        second.join(PATIENCE)
        assert len({lease.owner for lease in store.running()}) == 1, "the first is at work"
    said = (tmp_path / "two.log").read_text()
    assert (second.exitcode, "one, where its" in said, "Traceback" in said) == (2, True, False), said
    first.join(PATIENCE)
    assert first.exitcode == 0, (tmp_path / "one.log").read_text()


def test_steps_are_counted_by_who_took_them(program, store_url: str):
    program.log_leases(store_url)
    shard, run = Wanted(("a", "b"), "rank controls train 0"), Wanted(("c",))
    with ResultsStore.open(store_url) as store:
        for owner, wishes in (("one", [shard]), ("other", [run, Wanted(("d",), "seal random scalar")])):
            store.claim(wishes, Owner(owner, "host", 1, "1"), 9)
            store.beat(Owner(owner, "host", 1, "1"))
    assert program.leased(store_url) == [Counter(run=1, seal=1), Counter(rank=1)]


def test_the_report_compares(program):
    one = program.Measured(20.0, [30.0], [Counter(rank=40)], "a" * 64)
    two = program.Measured(11.0, [15.0, 18.0], [Counter(rank=21), Counter(rank=19)], "b" * 64)
    said = program.report(one, two)
    assert "rank             40  21 + 19 (48% by the one with fewer)" in said
    assert "table      aaaaaaaa  bbbbbbbb" in said
    assert said.endswith("two against one: 0.600 processor, 0.550 wall, so 1.82 times as fast")


def test_what_a_table_is_of(program):
    arguments = ["--suite", "quick", "--seeds", "1", "--limit", "300"]
    assert program.reading(arguments) == ["--suite", "quick", "--limit", "300"]
