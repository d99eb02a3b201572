"""The project's own asset: one page of text for each product of the catalogue, which the study reads."""

import json
from pathlib import Path

import dagster as dg

FOLDER = Path(__file__).parent


@dg.asset(group_name="shop")
def product_pages() -> dg.MaterializeResult:
    products = json.loads((FOLDER / "products.json").read_text(encoding="utf-8"))
    pages = FOLDER / "quality" / "pages"
    for product in products:
        text = f"# {product['name']}\n\n{product['text']}\n\n## Care\n\n{product['care']}\n"
        (pages / f"{product['id']}.md").write_text(text, encoding="utf-8")
    return dg.MaterializeResult(metadata={"products": len(products)})
