"""Permute: writes at computed positions, combined where they coincide."""
