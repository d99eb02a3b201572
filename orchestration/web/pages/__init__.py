"""The pages of the app, each a module with `render(context: PageContext) -> None`."""
