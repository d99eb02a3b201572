"""Acts of EUR-Lex: text, structure and facts, from all generations of its markup.

The family, in the order in which an act passes:

- `crawlers/spiders/eurlex.py` fetches what a search lists, or the acts that a source names
- `warehouse/eurlex_notice.py` reads CELEX numbers, makes addresses of them, and knows pages without a text
- `cleaner.py` here: a page comes in, a draft goes out
- `act_lines.py` reads the page as lines, tables as rows
- `act_structure.py` finds what an act only quotes, and puts title, recitals, articles and annexes together
- `act_facts.py` reads title, dates, form and authors
- `act_words.py` has the words by which acts name their parts
"""
