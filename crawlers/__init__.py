"""Scrapy crawlers and file readers: they fetch pages and know nothing of what becomes of them."""
