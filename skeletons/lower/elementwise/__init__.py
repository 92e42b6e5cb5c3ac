"""Independent elements: generate, map, zip and every index transform."""
