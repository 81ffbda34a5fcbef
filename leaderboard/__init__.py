"""The leaderboard: pages that show the results store. The leaderboard runs no experiments and never imports torch."""

import gc
import os

# a page makes many records, nearly all without cycles, and a search for garbage would pass through all of them
gc.set_threshold(200_000)
# with several threads, NumPy's BLAS takes longer than drawing; NumPy reads this variable when it is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
