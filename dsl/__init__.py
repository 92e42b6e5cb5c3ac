"""The language: types, scalars, arrays, operations, passes.  It imports no other package of
treadle."""

#: The version of the package.
VERSION = "0.1.0"
