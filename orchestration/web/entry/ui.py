"""The app of `assay ui`: Streamlit runs this file."""

from rag_assay.orchestration.web.app import main

if __name__ == "__main__":  # as Streamlit runs it
    main()
