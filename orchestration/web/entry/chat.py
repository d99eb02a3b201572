"""The page of `assay chat`: Streamlit runs this file."""

from rag_assay.orchestration.web.chat.page import page

if __name__ == "__main__":  # as Streamlit runs it
    page()
