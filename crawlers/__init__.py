"""Scrapy spiders and file readers: they fetch pages and know nothing of later stages."""
