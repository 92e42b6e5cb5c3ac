"""The user's operations, one module per section of the language's reference."""
