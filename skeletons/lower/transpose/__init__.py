"""Reads along an axis other than the last."""
