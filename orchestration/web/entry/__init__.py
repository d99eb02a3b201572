"""The scripts that Streamlit is started with, each of them a page."""
