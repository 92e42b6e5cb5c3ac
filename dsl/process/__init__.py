"""Settings and limits of the process, and its locks."""
