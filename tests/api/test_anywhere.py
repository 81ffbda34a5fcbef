"""Rows are made wherever Python runs: in threads, inside a running loop, and again after an interrupt."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from captum.attr import Saliency

import roarbench
from roarbench.execution import local_workers
from tests.helpers.given import gradient_x_input
from tests.helpers.tiny_suite import InlineEngine

pytestmark = [pytest.mark.usefixtures("inline"), pytest.mark.slow]


def test_two_threads_make_rows_of_one_store_at_once(fresh):
    given = ({"mine": gradient_x_input}, {"ig": Saliency})
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda one: roarbench.evaluate(fresh, one, protocol="morf", quiet=True), given))
    joined = (made[0] | made[1]).to_dataframe("morf")
    assert set(joined["name"]) == {"random", "mine", "ig"} and joined["gain"].notna().all()


def test_after_an_interrupt_the_same_call_goes_on_also_inside_a_running_loop(fresh, monkeypatch):
    """As in a notebook, whose cells run in a loop, and whose process holds what it leases as long as it lives."""
    runs = []

    class Engine(InlineEngine):
        def submit(self, job):
            super().submit(job)
            found = re.findall("^[0-9a-f]+$", job.name)  # runs are called by their keys
            runs.extend(found)
            if found and len(runs) == 2:
                raise KeyboardInterrupt

    async def cell():
        return roarbench.evaluate(fresh, {"mine": gradient_x_input}, protocol="roar", quiet=True)

    monkeypatch.setattr(local_workers, "LocalEngine", Engine)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    kept = fresh.result().stored.results
    assert kept
    result = asyncio.run(cell())
    assert result.to_dataframe()["gain"].notna().all() and kept.items() <= result.stored.results.items()
