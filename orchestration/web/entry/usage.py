"""The page of `assay usage`: Streamlit runs this file."""

from rag_assay.orchestration.web.usage.page import page

if __name__ == "__main__":  # as Streamlit runs it
    page()
