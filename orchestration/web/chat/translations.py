"""What the page says, in English and German."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from rag_assay.orchestration.web.languages import Language

Words = Callable[..., str]
"""(name of a text, values in it) -> the text in a language."""

TEXTS: Mapping[str, tuple[str, str]] = {
    "title": ("Ask {study}", "{study} fragen"),
    "new": ("New conversation", "Neue Unterhaltung"),
    "conversations": ("Conversations", "Unterhaltungen"),
    "no_conversations": ("Nothing was asked yet.", "Noch keine Fragen."),
    "more_conversations": ("{n} more, older ones", "{n} weitere, ältere"),
    "untitled": ("Conversation without a question", "Unterhaltung ohne Frage"),
    "menu": ("Rename, export, delete", "Umbenennen, exportieren, löschen"),
    "rename": ("Name", "Name"),
    "save": ("Save", "Speichern"),
    "export_markdown": ("Export as Markdown", "Als Markdown exportieren"),
    "export_json": ("Export as JSON", "Als JSON exportieren"),
    "delete": ("Delete", "Löschen"),
    "delete_sure": (
        "Delete this conversation with all of its answers and feedback? It cannot be brought back.",
        "Diese Unterhaltung mit allen Antworten und Rückmeldungen löschen? Sie kommt nicht zurück.",
    ),
    "delete_yes": ("Delete for good", "Endgültig löschen"),
    "deleted": ("The conversation was deleted.", "Die Unterhaltung wurde gelöscht."),
    "gone": (
        "There is no such conversation (any more). Ask a question to begin another one.",
        "Diese Unterhaltung gibt es nicht (mehr). Mit einer Frage beginnt eine neue.",
    ),
    "settings": ("Settings", "Einstellungen"),
    "person": ("Your name (optional)", "Ihr Name (freiwillig)"),
    "person_help": (
        "Conversations are listed by it. It stands in the address, so that a reload keeps it.",
        "Danach werden Unterhaltungen aufgelistet. Er steht in der Adresse und bleibt beim Neuladen.",
    ),
    "person_bad": ("That name cannot be used: {why}", "Dieser Name geht nicht: {why}"),
    "language": ("Language", "Sprache"),
    "cell": ("Answered by", "Es antwortet"),
    "cell_help": (
        "A cell of the study: chunking · embedder · retriever · generator, as it was measured.",
        "Eine Zelle der Studie: Chunking · Embedder · Retriever · Generator, wie gemessen.",
    ),
    "recommended": ("recommended", "empfohlen"),
    "measured": (
        "{metric} {mean} on average · place {rank} of {n}",
        "{metric} im Mittel {mean} · Platz {rank} von {n}",
    ),
    "measured_unranked": (
        "{metric} {mean} on average · without a place",
        "{metric} im Mittel {mean} · ohne Platz",
    ),
    "unmeasured": ("was not measured by {metric}", "nicht gemessen mit {metric}"),
    "report": ("Report", "Bericht"),
    "report_help": (
        "The study's report as an HTML file (in English)",
        "Der Bericht der Studie als HTML-Datei (auf Englisch)",
    ),
    "compare": ("Compare two, blind", "Zwei blind vergleichen"),
    "compare_help": (
        "Two cells answer each question side by side; which is which is shown after your vote.",
        "Zwei Zellen beantworten jede Frage nebeneinander; welche welche ist, zeigt sich nach der Wahl.",
    ),
    "other_cell": ("and by", "und"),
    "cannot_decline": (
        "This cell answers every question, also where the documents do not say: look at the sources.",
        "Diese Zelle beantwortet jede Frage, auch wenn die Dokumente nichts dazu sagen: Quellen ansehen.",
    ),
    "ask": ("Ask the documents …", "Die Dokumente fragen …"),
    "welcome": ("What would you like to know?", "Was möchten Sie wissen?"),
    "welcome_more": (
        "Answers come from the documents of “{corpus}”, with their sources. Questions of the study, to begin "
        "with:",
        "Antworten kommen aus den Dokumenten von „{corpus}“, mit Quellen. Fragen der Studie für den Anfang:",
    ),
    "welcome_plain": (
        "Answers come from the documents of “{corpus}”, with their sources.",
        "Antworten kommen aus den Dokumenten von „{corpus}“, mit Quellen.",
    ),
    "opening": ("The cell is being opened …", "Die Zelle wird geöffnet …"),
    "opening_long": (
        "The cell is being opened; your question is kept and answered then.",
        "Die Zelle wird geöffnet; die Frage wird danach beantwortet.",
    ),
    "searching": ("Searching the documents …", "Die Dokumente werden durchsucht …"),
    "writing": ("Writing …", "Schreibt …"),
    "stop": ("Stop", "Anhalten"),
    "stopping": ("Stopping …", "Wird angehalten …"),
    "under_way": (
        "This question is being answered by another process.",
        "Diese Frage wird von einem anderen Prozess beantwortet.",
    ),
    "question": ("Question", "Frage"),
    "answer": ("Answer", "Antwort"),
    "asked_as": ("Asked as", "Gefragt als"),
    "follow_up": ("as rewritten", "so umformuliert"),
    "relaxed": ("dropped: nothing was left with it", "fallen gelassen: damit blieb nichts"),
    "partial": ("What had come of the answer", "Was von der Antwort da war"),
    "time_frame": ("time", "Zeit"),
    "entities": ("about", "über"),
    "without": ("without", "ohne"),
    "remove_help": ("Ask again without it", "Noch einmal ohne das fragen"),
    "from_on": ("from {start}", "ab {start}"),
    "until": ("until {end}", "bis {end}"),
    "sources": ("Sources", "Quellen"),
    "more_sources": ("Read, but not cited: {n}", "Gelesen, aber nicht zitiert: {n}"),
    "read_sources": ("Passages that were read: {n}", "Gelesene Textstellen: {n}"),
    "open_source": ("Open the page", "Seite öffnen"),
    "open_page": ("Open page {page}", "Seite {page} öffnen"),
    "page": ("page {page}", "Seite {page}"),
    "untitled_source": ("Document without a title", "Dokument ohne Titel"),
    "no_link": ("This document has no address on the web", "Dieses Dokument hat keine Adresse im Netz"),
    "declined": ("The documents do not say", "Die Dokumente sagen dazu nichts"),
    "declined_more": (
        "Nothing was found that answers this. It may help to ask with other words.",
        "Es fand sich nichts, was das beantwortet. Andere Worte helfen vielleicht.",
    ),
    "declined_no_passages": (
        "The search found no passage at all. Other words, or fewer limits such as a time, may help.",
        "Die Suche fand keine Textstelle. Andere Worte oder weniger Einschränkungen helfen vielleicht.",
    ),
    "declined_gate": (
        "What was found fits the question too little to answer from. It may help to ask with other words.",
        "Was sich fand, passt zu wenig zur Frage, um daraus zu antworten. Andere Worte helfen vielleicht.",
    ),
    "declined_min_score": (
        "No sentence of the passages below is near enough to the question to be quoted.",
        "Kein Satz der Textstellen unten kommt der Frage nahe genug, um zitiert zu werden.",
    ),
    "declined_model": (
        "The model has read the passages below, and says that they do not answer this.",
        "Das Modell hat die Textstellen unten gelesen und sagt, dass sie das nicht beantworten.",
    ),
    "no_answer": ("There is no answer", "Es gibt keine Antwort"),
    "kept": (
        "Your question is kept; ask it again when you like.",
        "Die Frage ist gespeichert und kann jederzeit noch einmal gestellt werden.",
    ),
    "why": ("Reason: {reason}", "Grund: {reason}"),
    "over_budget": (
        "The money for calls of models is spent (--budget-usd). A cell without a paid model still answers.",
        "Das Budget für Modelle ist aufgebraucht (--budget-usd). Zellen ohne bezahltes Modell gehen noch.",
    ),
    "model_gone": (
        "The model could not be asked: its server is gone, or refuses. Nothing else is lost.",
        "Das Modell war nicht zu erreichen: Sein Server fehlt oder lehnt ab. Sonst ist nichts verloren.",
    ),
    "not_put": (
        "It could not be put to a cell, for none could be opened or was free.",
        "Sie konnte keiner Zelle gestellt werden: Keine ließ sich öffnen oder war frei.",
    ),
    "stopped": ("You stopped it, or the server ended.", "Angehalten, oder der Server wurde beendet."),
    "truncated": (
        "The answer was cut at the longest that the cell's recipe allows.",
        "Die Antwort wurde bei der Höchstlänge des Rezepts abgeschnitten.",
    ),
    "ask_again": ("Ask again", "Noch einmal fragen"),
    "left_out": (
        "{n} earlier turns did not fit into the model's window.",
        "{n} frühere Beiträge passten nicht in das Fenster des Modells.",
    ),
    "quoted": ("quoted, no model", "zitiert, kein Modell"),
    "fallback": ("in place of {model}", "anstelle von {model}"),
    "seconds": ("{n} s", "{n} s"),
    "tokens": ("{n} tokens", "{n} Tokens"),
    "usd": ("{n} USD", "{n} USD"),
    "cached": ("from the cache", "aus dem Zwischenspeicher"),
    "model_label": ("Model", "Modell"),
    "feedback": ("Was this answer good?", "War diese Antwort gut?"),
    "comment": ("Say why", "Warum?"),
    "comment_label": ("What was good or wrong?", "Was war gut oder falsch?"),
    "comment_kept": ("Thank you; it is kept.", "Danke, das ist gespeichert."),
    "comment_long": (
        "A comment has at most {n} characters; this one was not kept.",
        "Ein Kommentar hat höchstens {n} Zeichen; dieser wurde nicht gespeichert.",
    ),
    "vote": ("Which answer is better?", "Welche Antwort ist besser?"),
    "vote_a": ("A is better", "A ist besser"),
    "vote_tie": ("Alike", "Gleich"),
    "vote_b": ("B is better", "B ist besser"),
    "voted_a": ("You preferred A.", "Sie fanden A besser."),
    "voted_b": ("You preferred B.", "Sie fanden B besser."),
    "voted_tie": ("You found both alike.", "Sie fanden beide gleich gut."),
    "answer_a": ("Answer A", "Antwort A"),
    "answer_b": ("Answer B", "Antwort B"),
    "not_opened": ("This cell cannot be opened: {why}", "Diese Zelle lässt sich nicht öffnen: {why}"),
    "not_done": ("That was not done: {why}", "Das ging nicht: {why}"),
    "too_long": (
        "The question has {n} characters, more than {most}. It was not asked: ask for what you want to know "
        "of the text, without the text.",
        "Die Frage hat {n} Zeichen, mehr als {most}. Sie wurde nicht gestellt: bitte nach dem fragen, was "
        "Sie vom Text wissen wollen, ohne den Text.",
    ),
}


def words_of(language: Language) -> Words:
    """Return what says the texts of the page in a language.

    >>> words_of("de")("tokens", n=3)
    '3 Tokens'
    """
    return partial(_text, 0 if language == "en" else 1)


def _text(at: int, name: str, **values: object) -> str:
    return TEXTS[name][at].format(**values)
