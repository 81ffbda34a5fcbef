"""A folder that several machines share, by a client that remembers what was not there when it last looked."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import common_networks as networks
from roarbench.execution import jobs, shards
from roarbench.plan.suite import Block
from roarbench.protocols.specific import SPECIFIC
from roarbench.terms import Split, Unit
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, make_runs, make_work

pytestmark = pytest.mark.slow

TUNED = replace(SUITE, blocks=(Block(SPECIFIC, (*CONTROLS, "grad"), (0.5, 0.9), seeds=1),))


@contextmanager
def remembered(missing):
    """Say that these names are not there until their folder is listed, as a client does that asked too early."""
    listed = set()

    def seen(path):
        return path not in missing or path.parent in listed

    def asked(real):
        return lambda path, **options: seen(path) and real(path, **options)

    def listing(real):
        def call(folder, *pattern, **options):
            if not seen(folder):
                raise FileNotFoundError(folder)
            listed.add(folder)
            return real(folder, *pattern, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, made in (("exists", asked), ("is_dir", asked), ("iterdir", listing), ("glob", listing)):
            patch.setattr(Path, name, made(getattr(Path, name)))
        yield


def snapshot(folder):
    """The files of a folder, so that one that is written again differs."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def controls(work):
    return tuple(work.ranking_spec(find_estimator(name), Unit.SCALAR) for name in CONTROLS)


def rank(work):
    shards.rank_shard(work.explained, controls(work), Split.TRAIN, 0, TRAIN)
    shards.rank_shard(work.explained, controls(work), Split.TEST, 0, TEST)


def seal(work):
    for spec in controls(work):
        shards.seal(work.place, spec)


def reference(work):
    jobs.train_reference(work.explained[0])


def common(work):
    made = work.common_network(make_runs(work, TUNED)[0])
    networks.train_common(work.place, made, work.control_specs(made.unit))


STEPS = [[reference], [rank], [rank, seal], [rank, seal, common]]


@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps[-1].__name__)
def test_what_another_machine_made_meanwhile_is_not_made_again(steps, tmp_path):
    work = make_work(tmp_path, TUNED)
    *before, last = steps
    for step in before:
        step(work)
    known = set(tmp_path.rglob("*"))
    last(work)  # on the other machine
    made, missing = snapshot(tmp_path), set(tmp_path.rglob("*")) - known
    waiting = {folder for lock in tmp_path.rglob("*.lock") for folder in lock.parents}  # which whoever waits has made
    with remembered(missing - waiting):
        last(work)
    assert snapshot(tmp_path) == made
