"""The suites on tables of numbers: a small perceptron, twenty references."""

from roarbench.plan.suite import Block, SuiteSpec
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.exchanged import ROAR_EXCHANGED
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import LERF, MORF

_ROWS = ("random", "grad", "grad-sq", "input-x-grad", "ig", "ig(baseline=mean)", "sgsq-grad", "var-grad")


def _tabular(name: str, about: str, retrained: tuple[float, ...], *rows: str) -> SuiteSpec:
    """Make a suite on a table: trainings take a fraction of a second, so there are 20 references and seeds.

    Networks are trained from scratch at the levels `retrained`.
    """
    many, levels, everyone = 20, (0.1, 0.5, 0.9), (*_ROWS, *rows)
    blocks = (
        Block(MATCHED, ("deviation", "linear-classifier", *everyone), levels, seeds=many),
        Block(AUGMENTED, everyone, levels, seeds=many),
        *(Block(protocol, everyone, retrained, seeds=many) for protocol in (ROAR, ROAR_EXCHANGED)),
        *(Block(order, everyone, levels, seeds=1) for order in (MORF, LERF)),
        Block(MASK_ONLY, everyone, retrained, seeds=3),
    )
    return SuiteSpec(name, 3, about, name, "mlp", "tabular@1", "tabular@1", blocks, references=many)


SUITES = (
    _tabular(
        "breast-cancer", "a table of 30 measures of cell nuclei, a small perceptron, 20 references", (0.1, 0.5, 0.9)
    ),
    _tabular(
        "breast-cancer-10",
        "the ten means of breast-cancer, few enough for exact Shapley values, 20 references",
        (0.1, 0.5, 0.9),
        "shapley",
    ),
    _tabular("digits", "handwritten digits as a table of 64 columns, a small perceptron, 20 references", (0.9,)),
)
