"""`python -m benchmarks` is `python -m benchmarks.cpu`."""

from benchmarks.cpu import main

raise SystemExit(main())
