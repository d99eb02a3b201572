"""The pages of `assay` in a browser: Streamlit on this machine alone, one look, shared components."""
