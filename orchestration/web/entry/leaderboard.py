"""The page of `assay leaderboard`: Streamlit runs this file."""

from rag_assay.orchestration.web.leaderboard.page import page

if __name__ == "__main__":  # as Streamlit runs it
    page()
