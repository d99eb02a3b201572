"""What columns are called in the sheets of people and of tools: ragas, LangChain, TruLens, DeepEval."""

from __future__ import annotations

import re

from rag_assay.evals.spreadsheet_import.tables import fold_name

KNOWN: dict[str, tuple[str, ...]] = {
    "question": (
        *("question", "user input", "query", "questions", "prompt", "user question", "input", "input.query"),
        *("frage", "fragen", "fragestellung", "nutzerfrage", "anfrage", "eingabe"),
        *("pregunta", "question posée", "domanda", "pergunta", "vraag", "pytanie", "質問", "问题", "вопрос"),
    ),
    "answer": (
        *("answer", "response", "answers", "output", "generated answer", "generated text", "actual output"),
        *("prediction", "model answer", "llm answer", "rag answer", "completion", "result", "reply"),
        *("antwort", "antworten", "modellantwort", "ausgabe", "respuesta", "réponse", "risposta", "resposta"),
        *("antwoord", "odpowiedź", "回答", "答案", "ответ"),
    ),
    "ground_truth": (
        *("ground truth", "ground truths", "groundtruth", "reference", "reference answer", "expected output"),
        *("expected answer", "expected", "gold", "gold answer", "correct answer", "target", "truth", "ideal"),
        *("referenz", "referenzantwort", "musterantwort", "musterlösung", "sollantwort", "richtige antwort"),
        *("erwartete antwort", "lösung", "réponse attendue", "respuesta correcta", "正解"),
    ),
    "contexts": (
        *("contexts", "retrieved contexts", "context", "retrieval context", "source documents", "documents"),
        *("passages", "chunks", "retrieved documents", "retrieved docs", "retrieved chunks", "evidence"),
        *(
            "kontext",
            "kontexte",
            "textstellen",
            "fundstellen",
            "abschnitte",
            "quellen",
            "contexte",
            "contexto",
        ),
    ),
    "question_id": (
        "question id",
        "qid",
        "query id",
        "questionid",
        "frage id",
        "fragen id",
        "frage nr",
        "id",
    ),
    "language": ("language", "lang", "sprache", "langue", "idioma", "lingua"),
    "annotator": (
        *("annotator", "annotators", "rater", "reviewer", "scored by", "rated by", "labeler", "human"),
        *("bewerter", "bewerterin", "bewertet von", "prüfer", "gutachter", "annotateur", "anotador"),
    ),
    "comment": (
        *("comment", "comments", "remark", "remarks", "feedback", "rationale", "reason"),
        *("kommentar", "kommentare", "bemerkung", "anmerkung", "begründung", "commentaire", "comentario"),
    ),
    "scored_at": ("scored at", "rated at", "annotated at", "bewertet am", "scored on", "rated on"),
    "score": (
        *("score", "human score", "scores", "rating", "ratings", "points", "grade", "human rating"),
        *("human label", "label", "stars", "mark", "bewertung", "punkte", "punktzahl", "wertung", "note"),
        *("puntuación", "puntaje", "punteggio", "pontuação", "ocena", "evaluation", "得点", "评分", "оценка"),
    ),
    "chunking": (
        *("chunking", "chunk strategie", "chunk strategy", "chunking strategy", "chunk size", "chunksize"),
        *("chunk", "chunker", "splitter", "text splitter", "chunk größe", "chunkgröße", "zerlegung"),
    ),
    "embedder": (
        *("embedder", "embedding", "embeddings", "embedding model", "embedding name", "embedding modell"),
        *("vektormodell", "encoder"),
    ),
    "retriever": (
        *(
            "retriever",
            "retrieve methods",
            "retrieval method",
            "retrieval methods",
            "retrieval",
            "retrievers",
        ),
        *("retrieval strategy", "search method", "search type", "search", "suchverfahren", "suchmethode"),
        *("methode", "method"),
    ),
    "generator": (
        *("generator", "model", "llm", "model name", "llm model", "model id", "app name", "app id", "system"),
        *("modell", "sprachmodell", "modellname", "modèle", "modelo", "modello"),
    ),
}
"""Role of a column -> what it is called, the likeliest first."""

AXES_TOLD = ("chunking", "embedder", "retriever", "generator")


def plain_name(name: str) -> str:
    """Return the name of a column as `KNOWN` has it: `_`, `-` and the like are white space.

    >>> plain_name(" Retrieve_Methods"), plain_name("userInput")
    ('retrieve methods', 'user input')
    """
    parted = re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z])", " ", name)
    return " ".join(re.sub(r"[_\-/:]+", " ", fold_name(parted)).split())


def role_of(name: str) -> tuple[str, int] | None:
    """Return the role of a column that is called so, and how far down its list the name stands.

    >>> role_of("Chunk-Strategie"), role_of("Bewertung"), role_of("x")
    (('chunking', 1), ('score', 12), None)
    """
    plain = plain_name(name)
    for role, names in KNOWN.items():
        if plain in names:
            return role, names.index(plain)
    return None
