"""The corpora of a home: small studies that `assay corpus` writes, builds and asks."""
