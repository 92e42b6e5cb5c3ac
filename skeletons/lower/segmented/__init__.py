"""Reductions of consecutive segments."""
