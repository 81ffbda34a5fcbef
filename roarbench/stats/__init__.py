"""What a board says, from the stored bits of its runs: numpy and scipy, never torch, never a store."""

VERSION = 2  # counts up with every change by which the same answers give other numbers
