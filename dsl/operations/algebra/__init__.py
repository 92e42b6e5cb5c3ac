"""Matrices and polynomials: products, decompositions, constructions."""
