"""Stands in for CUDA graphs where there is no GPU."""

from typing import Any

from roarbench.compute import gpu_training


class EagerGraph:
    log: list[str] = []  # captures and replays

    def __init__(self, step: Any, images: Any, labels: Any) -> None:
        self._step = step
        self.log.append("capture")

    def replay(self, images: Any, labels: Any) -> Any:
        self.log.append("replay")
        return self._step(images, labels)


def stand_in_for_graphs(monkeypatch: Any, graph: Any = None) -> list[str]:
    """Replace graphs and streams; return the log of captures, replays and steps without a graph."""
    log: list[str] = []

    def run_eagerly(step: Any, images: Any, labels: Any) -> Any:
        log.append("eager")
        return step(images, labels)

    monkeypatch.setattr(gpu_training, "_StepGraph", graph or type("Logged", (EagerGraph,), {"log": log}))
    monkeypatch.setattr(gpu_training, "_run_on_own_stream", run_eagerly)
    monkeypatch.setattr(gpu_training, "_CAPTURE_FAILURES", [])
    return log
