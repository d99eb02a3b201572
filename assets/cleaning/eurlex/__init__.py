"""Acts of EUR-Lex: text, structure and facts, from all generations of its markup.

`cleaner.py` makes a draft of a page: `act_lines.py` reads it as lines, `act_structure.py` finds quotations,
recitals, articles and annexes, `act_facts.py` title, dates, form and authors, by the words of `act_words.py`.
`crawlers/spiders/eurlex.py` fetches the acts; `warehouse/eurlex_notice.py` reads CELEX numbers.
"""
