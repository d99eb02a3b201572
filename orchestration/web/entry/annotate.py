"""The page of `assay annotate`: Streamlit runs this file."""

from orchestration.web.annotating.page import page

if __name__ == "__main__":  # as Streamlit runs it
    page()
