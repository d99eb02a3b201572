"""The page of `assay annotate`: Streamlit runs this file."""

from orchestration.web.annotating.page import page

page()
