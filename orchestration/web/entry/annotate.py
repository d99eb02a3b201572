"""The page of `assay ratings annotate`: Streamlit runs this file."""

from rag_assay.orchestration.web.annotation.page import page

if __name__ == "__main__":  # as Streamlit runs it
    page()
