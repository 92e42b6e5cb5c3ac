"""The language: types, scalars, arrays, operations, passes, programs.  It knows no backend."""
