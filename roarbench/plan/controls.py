"""The controls that one's own suite lacks. Nothing here imports torch."""

from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites.quick import list_controls
from roarbench.protocols.protocol import Protocol
from roarbench.text import format_count


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
