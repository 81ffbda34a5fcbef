"""The leaderboard: pages that show the results store. It runs no experiments and never imports torch."""

import os

# NumPy's BLAS threads would wait for each other longer than drawing takes; NumPy reads this at import
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
