"""What a board says, from the stored bits of its runs: numpy and scipy, never torch, never a store."""
