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
from roarbench.store import network_files as network_store
from roarbench.store import rankings, references
from roarbench.terms import Split, Unit
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, make_runs, make_work

pytestmark = pytest.mark.slow

TUNED = replace(SUITE, blocks=(Block(SPECIFIC, (*CONTROLS, "grad"), (0.5, 0.9), seeds=1),))


class Client:
    """Says that a name is not there as it did before, until the name's folder is listed; another machine's knows."""

    def __init__(self, patch):
        self._gone: set[Path] = set()
        self._elsewhere = False
        for name in ("exists", "is_dir"):
            patch.setattr(Path, name, self._asked(getattr(Path, name)))
        for name in ("iterdir", "glob"):
            patch.setattr(Path, name, self._listed(getattr(Path, name)))

    @contextmanager
    def elsewhere(self):
        self._elsewhere = True
        yield
        self._elsewhere = False

    def _asked(self, real):
        def asked(path, **options):
            found = real(path, **options)
            if self._elsewhere:
                return found
            if not found:
                self._gone.add(path)
            return found and path not in self._gone

        return asked

    def _listed(self, real):
        def listed(folder, *pattern, **options):
            if not self._elsewhere:
                if folder in self._gone:
                    raise FileNotFoundError(folder)
                self._gone = {path for path in self._gone if path.parent != folder}
            return real(folder, *pattern, **options)

        return listed


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
def test_what_another_machine_made_while_one_waited_for_its_lock_is_not_made_again(steps, tmp_path, monkeypatch):
    work = make_work(tmp_path, TUNED)
    *before, last = steps
    for step in before:
        step(work)
    client, lock, made = Client(monkeypatch), references.locked, []

    def look():
        """As the command does before it hands the step out."""
        assert not work.explained[0].store.has()
        assert not work.place.networks.has(work.common_network(make_runs(work, TUNED)[0]).key)
        for spec in controls(work):
            work.place.rankings.has(spec), work.place.rankings.ranked(spec, Split.TEST)

    @contextmanager
    def waited(path, *anew):
        if not made:
            made.append(path)
            with client.elsewhere():
                last(work)
                made.append(snapshot(tmp_path))
        with lock(path, *anew):
            yield

    for module in (references, network_store, rankings):
        monkeypatch.setattr(module, "locked", waited)
    look()
    last(work)
    with client.elsewhere():
        assert snapshot(tmp_path) == made[1]
