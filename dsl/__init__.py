"""The language: types, scalars, arrays, operations, passes.  It imports nothing above it."""

#: The version of the package.
VERSION = "0.1.0"
