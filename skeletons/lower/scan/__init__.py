"""Prefixes along an axis."""
