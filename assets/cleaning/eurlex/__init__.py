"""Acts of EUR-Lex: text, structure and facts, from all generations of its markup.

`cleaner.py` is where a page comes in and a draft goes out. It reads the page as lines (`lines.py`, with
`tables.py` for rows), finds what an act only quotes (`quotations.py`), assembles title, recitals, articles
and annexes (`structure.py` with the builder of `act.py`), and reads CELEX number, dates and authors
(`act_facts.py`). The words by which acts name their parts are in `act_words.py`.

Elsewhere: `crawlers/spiders/eurlex.py` fetches the acts; `warehouse/eurlex_notice.py` knows the pages that
say only that a text is missing, for the spider and the cleaner alike.
"""
