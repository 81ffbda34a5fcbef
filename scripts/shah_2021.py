"""Curves of DiffROAR as Shah, Jain and Netrapalli published them (NeurIPS 2021), in accuracy points.

Read off the vector figures of harshays/inputgradients at 3770469.
"""

from dataclasses import dataclass

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # fractions removed


@dataclass(frozen=True)
class ReportedCurve:
    """One curve of DiffROAR over `LEVELS`.

    Attributes:
        name: Data, network and how it was trained.
        points: Accuracy with the most important pixels kept minus with the least important kept.
        deviations: Of these over pairs of runs.
        robust: Trained on adversarial examples.
    """

    name: str
    points: tuple[float, ...]
    deviations: tuple[float, ...]
    robust: bool = False


IMAGENET_10 = (
    ReportedCurve("ImageNet-10, ResNet-18", (3.91, 1.07, 5.05, 0.65, -4.55), (2.92, 3.06, 2.29, 2.63, 2.40)),
    ReportedCurve(
        "the same, robust (4/255)", (1.78, 3.20, 5.08, 7.62, 11.13), (2.53, 2.26, 3.40, 4.36, 3.23), robust=True
    ),
)
CIFAR_10 = (
    ReportedCurve("CIFAR-10, ResNet-50", (0.98, 1.15, 1.00, -0.62, -4.75), (0.45, 1.04, 0.55, 0.52, 0.30)),
    ReportedCurve(
        "the same, robust (8/255)", (1.48, 4.49, 9.35, 14.91, 22.75), (0.36, 0.37, 0.47, 0.29, 0.40), robust=True
    ),
)
