"""What is known of expressions and graphs at compile time."""
