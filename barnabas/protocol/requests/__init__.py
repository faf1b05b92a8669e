"""The request vocabulary: version-free dataclasses, one file per API, shared by both dialects."""
