"""The language: types, scalars, arrays, operations, passes.  It imports nothing above it."""

#: Of the whole package.
VERSION = "0.1.0"
