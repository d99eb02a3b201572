"""Questions turned into other forms by plain rules: keywords, statements."""

from __future__ import annotations

import re

from evals.understanding.rules.question_words import content

_ASKING = re.compile(
    r"""^\W*(?:(?:in|to|by|from|at|for|with|under|of|on|mit|an|in|auf|für|von|bis|seit|aus|bei|nach|vor)\s+)?
    (?:what|which|who|whom|whose|when|where|why|how(?:\s+(?:much|many|long|often|far|old|high|quickly|large|big))?
    |wer|wen|wem|wessen|was|welche[nmrs]?|wann|wo|woher|wohin|warum|weshalb|wieso
    |wie(?:\s+(?:viele?n?|lange|oft|hoch|weit|groß|alt|teuer))?|inwieweit)\b\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_HELPING = re.compile(
    r"""^(?:is|are|was|were|do|does|did|has|have|had|can|could|must|may|might|shall|should|will|would
    |ist|sind|war|waren|hat|haben|hatte|hatten|kann|können|muss|müssen|musste|wird|werden|wurde|wurden)\b\s*""",
    re.IGNORECASE | re.VERBOSE,
)


def keyword_form(text: str) -> str:
    """Return the content words of a question.

    >>> keyword_form("When does the ferry leave the harbour?")
    'ferry leave harbour'
    """
    return " ".join(word.text for word in content(text))


def statement(text: str) -> str:
    """Return a question without its question word, auxiliary and question mark: close to how a text says it.

    No grammar is done beyond that, so the verb keeps its form and place.

    >>> statement("When does the ferry leave the harbour?")
    'The ferry leave the harbour.'
    >>> statement("Wer wurde Meister der Ruhrlandliga?")
    'Meister der Ruhrlandliga.'
    """
    short = " ".join(text.split()).rstrip("?!. ")
    short = _HELPING.sub("", _ASKING.sub("", short, count=1), count=1).strip(" ,;:")
    return f"{short[0].upper()}{short[1:]}." if short else ""
