"""What backends share when a program runs: the plan, memory, host expressions, caches on disk."""
