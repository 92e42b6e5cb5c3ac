"""Many elements to fewer: folds, scans, segments, statistics; sorted, searched, filtered."""
