"""The public operations, one module per section of the language reference."""
