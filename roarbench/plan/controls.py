"""The controls that a suite should have. Nothing here imports torch."""

from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.suite import SuiteSpec
from roarbench.protocols.protocol import Protocol
from roarbench.text import format_count

_COLOUR = ("colour-deviation", "saturation-deviation")
# the strongest of studies/corpus on images that no board has stand last
_ON_IMAGES = (*CONTROLS, "contrast", "deviation", "deviation-blurred", *_COLOUR, "linear-classifier")


def list_controls(channels: int, tabular: bool = False) -> tuple[str, ...]:
    """Return the controls that a row has to beat on images of so many channels: grey has no colour, a row no edges."""
    if tabular:
        return ("random", "deviation", "linear-classifier")
    return tuple(name for name in _ON_IMAGES if channels > 1 or name not in _COLOUR)


def describe_missing_controls(suite: SuiteSpec, protocol: Protocol) -> str:
    """Say which controls `new-suite` writes that one's own suite lacks under a protocol; empty where it lacks none.

    Only of protocols that compare two masks: `new-suite` writes no more than the usual three for the others.
    """
    if not suite.own or not protocol.paired:
        return ""
    record = suite.dataset_record
    names = {name for block in suite.blocks if block.protocol == protocol for name in block.estimators}
    has = {name for name in names if find_estimator(name).is_model_free and not suite.why_not(name)}
    usual = list_controls(record.channels, record.tabular)
    lacking = [name for name in usual if name not in has and not suite.why_not(name)]
    if not has or not lacking:
        return ""
    return (
        f"{format_count(len(has), 'control')} under {protocol.name}, and fewer are easier to beat; "
        f"add {', '.join(lacking)} to `estimators`, as `new-suite` does"
    )
