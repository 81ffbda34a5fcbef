"""The controls that one's own suite lacks. Nothing here imports torch."""

from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suite import Suite
from roarbench.plan.suites.quick import beaten_on
from roarbench.protocols.declaration import Protocol
from roarbench.text import counted


def few_controls(suite: Suite, protocol: Protocol) -> str:
    """Say which controls `new-suite` writes that one's own suite lacks under a protocol; empty where it lacks none.

    Only of protocols that compare two masks: `new-suite` writes no more than the usual three for the others.
    """
    if not suite.own or not protocol.paired:
        return ""
    record = suite.dataset_record
    names = {name for block in suite.blocks if block.protocol == protocol for name in block.estimators}
    has = {name for name in names if find_estimator(name).asks_nothing and not suite.why_not(name)}
    usual = beaten_on(record.channels, record.tabular)
    lacking = [name for name in usual if name not in has and not suite.why_not(name)]
    if not has or not lacking:
        return ""
    return (
        f"{counted(len(has), 'control')} under {protocol.name}, and fewer are easier to beat; "
        f"add {', '.join(lacking)} to `estimators`, as `new-suite` does"
    )
