"""What the page of rating says, in English and German; `components/scoring/` gets all of it."""

from __future__ import annotations

from rag_assay.orchestration.web.languages import Texts

TEXTS: Texts = {
    # What comes of a key.
    "tagged": ("Tagged", "Markiert"),
    "tag_back": ("Tag taken back", "Markierung zurückgenommen"),
    "saved": ("Saved", "Gespeichert"),
    "comment_saved": ("Comment saved", "Kommentar gespeichert"),
    "taken_back": ("Taken back", "Zurückgenommen"),
    "not_saved": ("NOT SAVED: {why}", "NICHT GESPEICHERT: {why}"),
    "score_first": (
        "To go on, score it or press s: cannot say",
        "Zum Weitergehen bewerten oder s drücken: nicht zu sagen",
    ),
    "restarted": (
        "The server was started again. What was saved is kept; press that key once more.",
        "Der Server wurde neu gestartet. Gespeichertes ist erhalten; die Taste noch einmal drücken.",
    ),
    "no_server": (
        "No answer from the server. Start it again; what was saved is kept.",
        "Der Server antwortet nicht. Neu starten; Gespeichertes ist erhalten.",
    ),
    # Around the item.
    "human_ratings": ("Human ratings", "Bewertungen"),
    "keys": ("Keys", "Tasten"),
    "keys_and_help": ("Keys and help", "Tasten und Hilfe"),
    "close": ("Close", "Schließen"),
    "key_score": (
        "choose an anchor: it is saved, and the next is shown",
        "eine Stufe wählen: sie wird gespeichert, und die nächste Antwort erscheint",
    ),
    "key_on": ("go on", "weiter"),
    "key_back": (
        "go back; a new score replaces the old one",
        "zurück; eine neue Bewertung ersetzt die alte",
    ),
    "key_undo": (
        "take back the score that is shown, or else the last one",
        "die gezeigte Bewertung zurücknehmen, sonst die letzte",
    ),
    "key_comment": ("comment; Esc leaves the field", "Kommentar; Esc verlässt das Feld"),
    "key_tag": (
        "failure tag: why the answer failed; Enter keeps it",
        "Fehlergrund: warum die Antwort misslang; Enter behält ihn",
    ),
    "key_help": ("this help", "diese Hilfe"),
    "or_enter": ("→ or Enter", "→ oder Enter"),
    "scored": ("Scored", "Bewertet"),
    "tally": (" of {of} scored", " von {of} bewertet"),
    "wanted": (" · {n} labels still wanted", " · {n} Bewertungen fehlen noch"),
    "wanted_1": (" · 1 label still wanted", " · 1 Bewertung fehlt noch"),
    "leave": ("Somebody else scores", "Jemand anderes bewertet"),
    "who": ("Who is rating?", "Wer bewertet?"),
    "who_about": (
        "You see one answer at a time, not the pipeline that gave it. Each rating is saved at once.",
        "Sie sehen eine Antwort nach der anderen, nicht ihre Pipeline. Alles wird sofort gespeichert.",
    ),
    "name": ("Your name, the same each time", "Ihr Name, jedes Mal derselbe"),
    "begin": ("Begin", "Beginnen"),
    "go_on_as": ("Or go on as", "Oder weiter als"),
    "trouble": ("This page cannot be shown", "Diese Seite lässt sich nicht zeigen"),
    "done": ("Done. Thank you.", "Fertig. Danke."),
    "done_more": (
        "You have scored {n} answers. Nothing is left for you to do.",
        "Sie haben {n} Antworten bewertet. Für Sie ist nichts mehr zu tun.",
    ),
    "done_more_1": (
        "You have scored 1 answer. Nothing is left for you to do.",
        "Sie haben eine Antwort bewertet. Für Sie ist nichts mehr zu tun.",
    ),
    # What is read.
    "question": ("Question", "Frage"),
    "answer": ("Answer", "Antwort"),
    "no_answer": ("There is no answer.", "Es gibt keine Antwort."),
    "no_passage": ("There is no such passage", "Diese Passage gibt es nicht"),
    "passage": ("Passage {n}", "Passage {n}"),
    "passages": ("{n} passages", "{n} Passagen"),
    "passages_1": ("1 passage", "1 Passage"),
    "more_characters": ("Show {n} more characters", "Weitere {n} Zeichen zeigen"),
    "more_characters_1": ("Show 1 more character", "Noch ein Zeichen zeigen"),
    "said_before": ("Said before", "Zuvor gesagt"),
    "show_all_evidence": ("Show all, the evidence too", "Alles zeigen, auch den Beleg"),
    "show_all": ("Show all", "Alles zeigen"),
    "show_less": ("Show less", "Weniger zeigen"),
    "truth": ("Ground truth", "Richtige Antwort"),
    "evidence": ("Evidence", "Beleg"),
    "asked_on": ("Asked on ", "Gefragt am "),
    # By what it is rated.
    "rubric": ("Rubric", "Bewertungsschema"),
    "better": ("{side} is better", "{side} ist besser"),
    "cannot_say": ("Cannot say", "Nicht zu sagen"),
    "open": ("Open", "Offen"),
    "comment": ("Comment", "Kommentar"),
    "own_tag": ("Failure tag in your own words", "Fehlergrund in eigenen Worten"),
    "why_failed": ("Why did it fail?", "Warum misslang die Antwort?"),
    "tags": ("Failure tags", "Fehlergründe"),
    "back": ("Back", "Zurück"),
    "undo": ("Undo", "Zurücknehmen"),
    "on": ("Next", "Weiter"),
    "words": ("More words", "Mehr Wörter"),
    "fewer_words": ("Fewer words", "Weniger Wörter"),
}
