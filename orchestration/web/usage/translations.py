"""What the view Usage says, in English and German; the English titles of panels are those of the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assay.orchestration.web.languages import Texts
from rag_assay.warehouse.usage import PANELS

_PANELS: Mapping[str, tuple[str, str]] = {  # title and sentence in German
    "totals": ("Insgesamt", "Wie viele Fragen gestellt wurden, und wie sie endeten."),
    "questions": (
        "Fragen am Tag",
        "Antworten nach ihrem Ausgang. Eine Frage, die zwei Pipelines nebeneinander beantworten, hat zwei "
        "Antworten.",
    ),
    "feedback": (
        "Rückmeldungen",
        "Der Anteil der Daumen nach oben an allen Daumen, mit dem 95-%-Intervall nach Wilson.",
    ),
    "sentences": (
        "Was geschrieben wurde",
        "Die Sätze, die mit einem Daumen oder allein kamen, der neueste zuerst.",
    ),
    "votes": (
        "Abstimmungen zwischen zwei Pipelines",
        "Welche von zwei Antworten besser gefiel, ohne zu wissen, von wem sie ist: der Anteil der Stimmen "
        "für die erste Pipeline mit dem 95-%-Intervall nach Wilson. Unentschieden sind getrennt gezählt.",
    ),
    "latency": (
        "Wartezeit nach Schritt",
        "Sekunden für Suche, für Antwort und insgesamt: die Hälfte der Antworten brauchte weniger als p50, "
        "alle bis auf ein Zwanzigstel weniger als p95. Was fehlschlug, hat keine Sekunden.",
    ),
    "latency_days": (
        "Wartezeit am Tag",
        "Median und 95. Perzentil der Sekunden, die jemand wartete.",
    ),
    "models": (
        "Modelle: Tokens und Geld",
        "Aufrufe von Modellen durch Unterhaltungen (chat) und Läufe (study), und was bezahlt wurde. Was im "
        "Cache lag, kostet nicht noch einmal. Aufrufe ohne bekannten Preis stehen in keiner Summe.",
    ),
    "scores": (
        "Werte der Suche",
        "Median des Werts der ersten Passage und der Konfidenz, nach Tag und Pipeline. Jeder Retriever hat "
        "seine eigene Skala: eine Linie vergleicht Tage einer Pipeline, nie zwei Pipelines.",
    ),
    "leaders": (
        "Führende Pipeline der Studie",
        "Welche Pipeline wann führte, mit ihrem Intervall: was die Studie maß, nicht was hier gefragt wurde.",
    ),
    "documents": (
        "Meistgenutzte Dokumente",
        "In wie vielen Antworten ein Dokument zitiert wurde, und unter den Passagen wie vieler es war.",
    ),
    "unanswered": (
        "Fragen ohne Antwort",
        "Was abgelehnt wurde, keine Passage fand, fehlschlug oder einen Daumen nach unten bekam, das Neueste "
        "zuerst.",
    ),
    "hours": ("Belebteste Stunden", "Fragen nach Wochentag und Stunde."),
    "people": (
        "Personen und Unterhaltungen",
        "Wer fragte, unter dem eigenen Namen; Unterhaltungen ohne Namen sind eine Zeile.",
    ),
}
_COLUMNS: Mapping[str, str] = {
    "answered": "beantwortet",
    "at": "wann",
    "cached": "aus dem Cache",
    "calls": "Aufrufe",
    "cell": "Pipeline",
    "cells": "Pipelines",
    "cited": "zitiert",
    "comment": "Kommentar",
    "completion_tokens": "geschriebene Tokens",
    "confidence": "Konfidenz",
    "conversation_id": "Unterhaltung",
    "conversations": "Unterhaltungen",
    "day": "Tag",
    "declined": "abgelehnt",
    "declined_by": "abgelehnt von",
    "doc_id": "Dokument",
    "down": "nach unten",
    "failed": "fehlgeschlagen",
    "first": "zuerst",
    "high": "bis",
    "hour": "Stunde",
    "last": "zuletzt",
    "leader": "führend",
    "longest": "am längsten",
    "lost": "verloren",
    "low": "von",
    "metric": "Metrik",
    "model": "Modell",
    "n": "Anzahl",
    "name": "Name",
    "not_cited": "nicht zitiert",
    "number": "Nummer",
    "p50": "p50",
    "p95": "p95",
    "paid": "bezahlt",
    "person": "Person",
    "prompt_tokens": "gelesene Tokens",
    "purpose": "Zweck",
    "question": "Frage",
    "questions": "Fragen",
    "reason": "Grund",
    "rival": "andere Pipeline",
    "sentences": "Sätze",
    "share": "Anteil",
    "shown": "gezeigt",
    "since": "seit",
    "stage": "Schritt",
    "study": "Studie",
    "thumb": "Daumen",
    "tied": "gleichauf",
    "ties": "unentschieden",
    "title": "Titel",
    "top_score": "erster Wert",
    "unpriced": "ohne Preis",
    "up": "nach oben",
    "url": "Adresse",
    "used_by": "genutzt von",
    "value": "Wert",
    "weekday": "Wochentag",
    "why": "warum",
    "within_the_margin": "innerhalb der Toleranz",
    "won": "gewonnen",
}

TEXTS: Texts = {
    **{f"title_{name}": (PANELS[name].title, german) for name, (german, _) in _PANELS.items()},
    **{f"about_{name}": (PANELS[name].about, german) for name, (_, german) in _PANELS.items()},
    **{f"column_{name}": (name.replace("_", " "), german) for name, german in _COLUMNS.items()},
    # Filters.
    "pipeline": ("Pipeline", "Pipeline"),
    "all_cells": ("All pipelines", "Alle Pipelines"),
    "days": ("Days", "Tage"),
    "days_7 days": ("7 days", "7 Tage"),
    "days_30 days": ("30 days", "30 Tage"),
    "days_90 days": ("90 days", "90 Tage"),
    "days_All": ("All", "Alle"),
    "days_Dates": ("Dates", "Von … bis"),
    "from_to": ("From and to", "Von und bis"),
    "demo": ("Demo data", "Demodaten"),
    "demo_help": (
        "Generated to show the page; never counted with real questions.",
        "Erzeugt, um die Seite zu zeigen; nie mit echten Fragen zusammen gezählt.",
    ),
    "is_demo": (
        "Demo data, not real usage. Questions, answers and seconds are the study's, as measured; people, "
        "days and feedback are made up. `assay usage --forget-demo` removes it.",
        "Demodaten, keine echte Nutzung. Fragen, Antworten und Sekunden sind die gemessenen der Studie; "
        "Personen, Tage und Rückmeldungen sind erfunden. `assay usage --forget-demo` entfernt sie.",
    ),
    "no_questions": (
        "No questions yet: users ask them on the page Chat. {more}",
        "Noch keine Fragen: sie werden auf der Seite Chat gestellt. {more}",
    ),
    "demo_there": (
        "There is demo data: switch it on above.",
        "Es gibt Demodaten: oben lassen sie sich einschalten.",
    ),
    "demo_make": (
        "`assay usage --demo` writes demo data, to see this page filled.",
        "`assay usage --demo` schreibt Demodaten, die diese Seite füllen.",
    ),
    # Figures and sentences.
    "questions": ("Questions", "Fragen"),
    "answered": ("Answered", "Beantwortet"),
    "thumbs_up": ("Thumbs up", "Daumen nach oben"),
    "wait": ("Wait, p50 / p95", "Wartezeit, p50 / p95"),
    "paid_chat": ("Paid by chats", "Kosten der Chats"),
    "paid_study": ("Paid by runs", "Kosten der Läufe"),
    "totals": (
        "{questions} in {conversations}: {answered}, {declined} declined, {failed} failed. "
        "{people}{nameless}.",
        "{questions} in {conversations}: {answered}, {declined} abgelehnt, {failed} fehlgeschlagen. "
        "{people}{nameless}.",
    ),
    "n_questions": ("{n} questions", "{n} Fragen"),
    "n_questions_1": ("1 question", "1 Frage"),
    "n_conversations": ("{n} conversations", "{n} Unterhaltungen"),
    "n_conversations_1": ("1 conversation", "1 Unterhaltung"),
    "n_answers": ("{n} answers", "{n} Antworten"),
    "n_answers_1": ("1 answer", "1 Antwort"),
    "n_people": ("{n} people", "{n} Personen"),
    "n_people_1": ("1 person", "1 Person"),
    "n_nameless": ("; {n} nameless conversations", "; {n} Unterhaltungen ohne Namen"),
    "n_nameless_1": ("; 1 nameless conversation", "; 1 Unterhaltung ohne Namen"),
    "not_known": ("not known", "nicht bekannt"),
    "unpriced": (" and {n} calls of unknown price", " und {n} Aufrufe ohne bekannten Preis"),
    "unpriced_1": (" and 1 call of unknown price", " und 1 Aufruf ohne bekannten Preis"),
    "no_thumb": ("no thumb yet", "noch kein Daumen"),
    "share": ("{share} ({low} to {high}) of {n} thumbs", "{share} ({low} bis {high}) von {n} Daumen"),
    "share_1": ("{share} ({low} to {high}) of 1 thumb", "{share} ({low} bis {high}) von 1 Daumen"),
    "votes": (
        "{cell} and {rival}, {n} votes: {won} for the first, {lost} for the second, {ties} ties{share}.",
        "{cell} und {rival}, {n} Stimmen: {won} für die erste, {lost} für die zweite, {ties} gleich{share}.",
    ),
    "votes_1": (
        "{cell} and {rival}, 1 vote: {won} for the first, {lost} for the second, {ties} ties{share}.",
        "{cell} und {rival}, 1 Stimme: {won} für die erste, {lost} für die zweite, {ties} gleich{share}.",
    ),
    "votes_share": ("; {share} ({low} to {high})", "; {share} ({low} bis {high})"),
    "stage_seconds": ("{stage}: {p50} s, p95 {p95} s ({n})", "{stage}: {p50} s, p95 {p95} s ({n})"),
    "stage_search": ("search", "Suche"),
    "stage_answer": ("answer", "Antwort"),
    "stage_whole": ("whole", "insgesamt"),
    "no_seconds": ("No answer has seconds.", "Keine Antwort hat Sekunden."),
    "money_spent": ("Conversations: {chat}. Runs: {study}.", "Unterhaltungen: {chat}. Läufe: {study}."),
    "leader_since": (
        "{study}: {cell} since {since}, by {metric} {value}{near}.",
        "{study}: {cell} seit {since}, mit {metric} {value}{near}.",
    ),
    "n_tied": ("; {n} tied with it", "; {n} gleichauf"),
    "n_within_the_margin": ("; {n} within the margin", "; {n} innerhalb der Toleranz"),
    "hour_range": ("{day} {hour}:00 to {until}:00", "{day} {hour}:00 bis {until}:00"),
    "busiest": ("Busiest: {hours} ({n}).", "Am belebtesten: {hours} ({n})."),
    "weekdays": ("Mon Tue Wed Thu Fri Sat Sun", "Mo Di Mi Do Fr Sa So"),
    "rather": ("{cell} rather than {rival}", "{cell} statt {rival}"),
    "score_cell": ("Pipeline of the chart", "Pipeline des Diagramms"),
    "leader_study": ("Study of the chart", "Studie des Diagramms"),
    "latency": ("Latency", "Wartezeit"),
    "first_rows": ("The first {n}; the file has all.", "Die ersten {n}; die Datei hat alle."),
    # Axes, and what a chart shows for those who do not see it.
    "axis_answers": ("answers", "Antworten"),
    "axis_thumbs": ("share of thumbs up", "Anteil der Daumen nach oben"),
    "axis_votes": ("share of votes for the first", "Anteil der Stimmen für die erste"),
    "axis_seconds": ("seconds", "Sekunden"),
    "axis_tokens": ("tokens", "Tokens"),
    "axis_median": ("median", "Median"),
    "alt_questions": (
        "Bars of answers a day; the most questions, {n}, on {day}.",
        "Balken der Antworten am Tag; die meisten Fragen, {n}, am {day}.",
    ),
    "alt_feedback": (
        "A point with its interval a cell; the table has the figures.",
        "Ein Punkt mit Intervall je Pipeline; die Tabelle hat die Zahlen.",
    ),
    "alt_votes": (
        "A point with its interval a pair of cells; the table has the figures.",
        "Ein Punkt mit Intervall je Paar von Pipelines; die Tabelle hat die Zahlen.",
    ),
    "alt_latency": (
        "Lines of the median and the 95th percentile a day.",
        "Linien von Median und 95. Perzentil am Tag.",
    ),
    "alt_models": ("A bar of tokens a model and purpose.", "Ein Balken der Tokens je Modell und Zweck."),
    "alt_scores": (
        "Lines of the median of the first passage's score, and of the confidence, a day.",
        "Linien der Mediane des ersten Werts und der Konfidenz am Tag.",
    ),
    "alt_leaders": (
        "The leader's value with its interval, by result.",
        "Der Wert der führenden Pipeline mit Intervall, nach Ergebnis.",
    ),
    "alt_documents": (
        "A bar a document, the first {n}: answers that cite it, and others that were shown it.",
        "Ein Balken je Dokument, die ersten {n}: Antworten, die es zitieren, und andere, die es sahen.",
    ),
    "alt_hours": (
        "Questions by weekday and hour; the busiest is {hours}.",
        "Fragen nach Wochentag und Stunde; am meisten {hours}.",
    ),
}
