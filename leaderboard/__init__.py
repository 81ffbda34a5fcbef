"""The leaderboard: pages that show the results store. The leaderboard runs no experiments and never imports torch."""

import os

# with several threads, NumPy's BLAS takes longer than drawing; NumPy reads this variable when it is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
