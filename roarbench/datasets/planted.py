"""Generated images whose true feature ranking is known."""

import numpy as np
from numpy.typing import NDArray

from roarbench.datasets import DatasetRecord
from roarbench.terms import Split


def generate(record: DatasetRecord, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    """Pixels, labels and true importance of one split."""
    raise NotImplementedError
