"""Values of elements: map and zip, functions with NumPy's names, foreign code."""
