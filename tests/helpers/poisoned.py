"""Jobs for workers of which one is broken: the one that is shown GPU 1."""

import os


def do_unless_poisoned(value: int) -> int:
    if os.environ["CUDA_VISIBLE_DEVICES"] == "1":
        os._exit(9)
    return value
