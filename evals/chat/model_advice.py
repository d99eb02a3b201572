"""The sentence that says which model would answer better than the one that answered, and what it costs."""

from __future__ import annotations

from rag_assay.evals.generation.contract import Generator
from rag_assay.warehouse.inference.model_registry import get
from rag_assay.warehouse.inference.model_servers import LOCAL
from rag_assay.warehouse.inference.prices import bundled_price

RECOMMENDED = "qwen2.5-coder-0.5b-instruct"
PAID = "gpt-4o-mini"
_READ, _WRITTEN = 1_500, 100  # tokens of a usual answer: five passages, the question, two sentences


def model_advice(generator: Generator) -> str | None:
    """Return which model would help and what it costs; None where a capable one answers already.

    A capable one is any but the smallest local model, for its server or maker is not known to be worse.
    """
    if generator.chat is not None and generator.chat.model != f"{LOCAL}smollm2-135m-instruct":
        return None
    price = bundled_price(PAID)
    cost = f", about ${price.read * _READ + price.written * _WRITTEN:.4f} an answer" if price else ""
    quoted = "quoted, not written" if generator.chat is None else "by a very small model"
    return (
        f"This answer is {quoted}. Better ones: --model {LOCAL}{RECOMMENDED} "
        f"({get(RECOMMENDED).size / 1e6:.0f} MB once, no key, 10 tokens a second on one core), "
        f"--model openai/{PAID} (a key{cost}), or any OpenAI-compatible server (Ollama, llama.cpp, vLLM) by "
        "--model openai/NAME and OPENAI_API_BASE."
    )
