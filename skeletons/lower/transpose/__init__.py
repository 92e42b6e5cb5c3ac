"""Reads along another axis than the last."""
