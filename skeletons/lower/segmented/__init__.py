"""Reductions of segments that lie one behind the other."""
