"""Lets a model answer that no cell of the study has, as a local one where no cell needs a key."""

from __future__ import annotations

import re
from dataclasses import replace

from pydantic import ValidationError

from rag_assay.evals.generation.contract import Generator
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.inference.model_registry import get
from rag_assay.warehouse.inference.model_servers import LOCAL, unreachable
from rag_assay.warehouse.inference.prices import bundled_price


def cell_for_model(study: Study, cell: Cell, name: str) -> tuple[Study, Cell]:
    """Return a study and a cell of it whose passages a generator or a model of this name answers from.

    A generator `llm` of the study that asks this model is taken, with whatever else the study says of it; any
    other model becomes a generator `llm` with nothing but its name. That cell is not measured: its
    passages are those of the cell that was measured, its answers are its own.

    name: of a generator of the study; of a local model, with `local/` or without; or as LiteLLM has it
    """
    if name in study.generators:
        generator = study.generators[name]
        if generator.reads != "ranking":
            raise InputError(f"{name} ({generator.kind}) reads no ranking: it answers no other question")
        return study, replace(cell, generator=name)
    recipe = _recipe(name)
    for key, one in study.generators.items():
        if type(one) is Llm and one.model == recipe.model:
            return study, replace(cell, generator=key)
    key = re.sub(r"[^A-Za-z0-9_+-]+", "-", recipe.model.rpartition("/")[2]).strip("-") or "model"
    while key in study.generators:
        key += "+"
    widened = study.model_copy(update={"generators": {**study.generators, key: recipe}})
    return widened, replace(cell, generator=key, replicate=1)


def _plainly(error: ValidationError) -> str:
    found = error.errors()[0]
    if found["type"] == "string_too_short":
        return "it is too short to be a name"
    return found["msg"].removeprefix("Value error, ").rstrip(".")


def _recipe(name: str) -> Llm:
    local = {one.name: one for one in models.known()}
    bare = name.removeprefix(LOCAL)
    model = LOCAL + bare if bare in local else name
    writers = ", ".join(LOCAL + one.name for one in local.values() if one.kind == "llm")
    if model.startswith(LOCAL) and (bare not in local or local[bare].kind != "llm"):
        raise InputError(f"`{name}` is not a local model that answers. Those that do: {writers}.")
    try:
        recipe = Llm(model=model)
    except ValidationError as error:
        raise InputError(f"`{name[:80]}` is not a model: {_plainly(error)}. Local ones: {writers}.") from None
    reason = unreachable(recipe.model, recipe.api_base)
    if reason:
        raise InputError(f"{reason}. Without a key, these answer: {writers}.")
    return recipe


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
