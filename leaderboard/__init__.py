"""The leaderboard: the results store as pages. It runs nothing and never imports torch."""

import os

# NumPy's BLAS has threads that wait for each other longer than they draw; it reads this when NumPy is first imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
