"""The page of `assay chat`: Streamlit runs this file."""

from orchestration.web.chatting.page import page

if __name__ == "__main__":  # as Streamlit runs it
    page()
