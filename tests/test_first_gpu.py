"""The first run on a GPU, on a processor: its steps work, and one that fails is told and costs no other."""

import first_gpu
import pytest
import torch
from first_gpu import STEPS, TINY, Step, images_a_second, mapped_pixels, training, try_step, write_report

from roarbench.enums import Unit
from roarbench.forecast.measurement import draw_images
from roarbench.kernels.streaming import StreamedImages


def test_all_steps_take_forty_minutes_at_most():
    assert sum(step.limit for step in STEPS) <= 40 * 60
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_steps_are_timed_from_memory_and_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    size, forgotten = TINY._replace(images=64, steps=1), []
    with mapped_pixels(size.side, size.images) as (pixels, forget):
        streamed = StreamedImages(pixels, None, first_gpu.FILL, Unit.SCALAR, torch.device("cpu"))
        held = draw_images((3, size.side, size.side), size.images, torch.device("cpu"))
        for inputs in (streamed, held):
            begun = training(size, inputs)
            assert images_a_second(begun, size, lambda: forgotten.append(forget())) > 0
            assert begun.step == begun.steps == 2
    assert len(forgotten) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_step_that_fails_or_hangs_is_told_with_what_was_expected(tmp_path):
    fails = Step("fails", 60, ("no-such-command",), "done", "write another")
    hangs = Step("hangs", 1, ("doctor",), "done", "wait longer")
    found = [(step, *try_step(step, tmp_path)) for step in (fails, hangs)]
    write_report(found, tmp_path / "report.md")
    failed, hung = (tmp_path / "report.md").read_text().splitlines()[-2:]
    assert failed.startswith("| fails | failed (2): ") and failed.split("|")[3:5] == [" done ", " write another "]
    assert hung.startswith("| hangs | not done after 1 s | done | wait longer |")
