"""The runtime that backends share: the plan, memory, host expressions, caches on disk."""
