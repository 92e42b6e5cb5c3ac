"""Static analysis of expressions and graphs."""
