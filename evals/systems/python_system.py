"""Systems in Python: a function, or an object of LangChain, LlamaIndex or Haystack, by its methods."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, Field, JsonValue

from rag_assay.evals.systems.code_loading import code_digest, load, missing_module
from rag_assay.evals.systems.contract import CalledSystem, SystemReply
from rag_assay.evals.systems.given_passages import GivenPassage, UnreadableError, read_passages
from rag_assay.evals.systems.given_replies import ANSWERS, PASSAGES, read_reply
from rag_assay.evals.systems.json_template import check_template, fill
from rag_assay.warehouse.inference.chat_completions import NoCompletionError, ServerError
from rag_assay.warehouse.inference.redaction import encode_without_secrets
from rag_assay.warehouse.inference.replies import Completion

if TYPE_CHECKING:
    from rag_assay.evals.generation.contract import GenerationContext

_HISTORY = ("history", "messages", "conversation", "chat_history")


def _is_place(place: str) -> str:
    module, colon, name = place.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{place!r} names no function; write module:function, as in my_app.rag:answer")
    return place


class Python(CalledSystem):
    """Calls Python code of the user's own, from the folder of the study file or an installed package.

    A function takes the question, and the conversation before it where it has a parameter named `history`, or
    a second one without a default. It returns a text, or a mapping with `answer` and `passages`. An object
    is called by its method: `invoke` (LangChain), `query` or `retrieve` (LlamaIndex), `run` (Haystack).

    call: `module:function`, or `module:object`
    input: argument in place of the question, with placeholders as in `http`
    answers: false: it only retrieves
    """

    kind: ClassVar[str] = "python"
    at_once: ClassVar[int] = 1  # code of the user's own need not be safe to use from many threads

    call: Annotated[str, AfterValidator(_is_place)]
    input: Annotated[JsonValue, AfterValidator(check_template)] = Field(default="{{ question }}")
    answers: bool = True
    passages: None = None

    def missing(self) -> str | None:
        return missing_module(self.call, self._folder)

    def meaning(self) -> dict[str, JsonValue]:
        return {**super().meaning(), **self._code}

    @property
    def _code(self) -> dict[str, JsonValue]:
        found = code_digest(self.call, self._folder)
        return {"code": found} if found else {}

    @property
    def target(self) -> str:
        return self.call

    @property
    def has_answers(self) -> bool:
        return self.answers

    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        return {"input": fill(self.input, values), "history": values["history"], **self._code}

    def prepare(self, context: GenerationContext) -> None:
        with suppress(Exception):  # `send` raises it again, as the reason of the answer
            load(self.call, context.folder)

    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        history = cast("list[dict[str, str]]", request["history"])
        try:
            system = load(self.call, context.folder)
            given = within(lambda: respond(system, request["input"], history), timeout)
            _, whole = encode_without_secrets(given)
        except TimeoutError as error:
            import httpx

            raise httpx.ReadTimeout(str(error) or "it took too long") from error
        except Exception as error:
            raise _failure(error) from error
        return Completion(whole, None, None, None, None, whole, {})

    def read(self, given: object) -> SystemReply:
        said = cast("dict[str, Any]", given)  # as `respond` returned it
        passages = said["passages"]
        return SystemReply(
            said["answer"],
            None if passages is None else tuple(GivenPassage(**one) for one in passages),
        )


def _failure(error: Exception) -> Exception:
    reason = f"{type(error).__name__}: {error}"
    code = getattr(error, "status_code", None)
    if isinstance(code, int) and code >= 400:  # of a server that it has asked
        headers = getattr(getattr(error, "response", None), "headers", {})
        return ServerError(code, reason, None, dict(headers or {}))
    return NoCompletionError(reason)


def within(call: Callable[[], Any], timeout: float) -> Any:
    """Return what a call returns.

    Raises:
        TimeoutError: it has not ended in time; its thread is left alone.
    """
    ended: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            ended.append((call(), None))
        except BaseException as error:  # raised again below
            ended.append((None, error))

    thread = threading.Thread(target=work, name="system", daemon=True)
    thread.start()
    thread.join(timeout)
    if not ended:
        raise TimeoutError(f"it has not returned within {timeout:g} s")
    result, error = ended[0]
    if isinstance(error, Exception):
        raise error
    if error is not None:
        raise RuntimeError(f"it raised {type(error).__name__}") from error
    return result


def respond(system: Any, asked: Any, history: list[dict[str, str]]) -> dict[str, Any]:
    """Call a system, and return its answer (None: none) and passages (None: not told), as JSON.

    Raises:
        UnreadableError: what it returns is neither.
    """
    given = _called(system, asked, history)
    if inspect.isawaitable(given):
        given = asyncio.run(_awaited(given))
    answer, passages = read_reply(given)
    return {
        "answer": answer,
        "passages": None if passages is None else [one._asdict() for one in read_passages(passages)],
    }


async def _awaited(given: Any) -> Any:
    return await given


def _called(system: Any, asked: Any, history: list[dict[str, str]]) -> Any:
    for method in ("invoke", "query", "retrieve"):
        if callable(found := getattr(system, method, None)):
            return found(asked)
    if callable(getattr(system, "run", None)) and callable(getattr(system, "inputs", None)):
        return _run_pipeline(system, asked)
    if not callable(system):
        raise UnreadableError(f"{type(system).__name__} has none of: a call, invoke, query, retrieve, run")
    return _call_function(system, asked, history)


def _call_function(function: Any, asked: Any, history: list[dict[str, str]]) -> Any:
    try:
        _, *others = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(asked)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    second = others[0] if others and others[0].kind in positional else None
    if second is not None and (second.default is second.empty or second.name in _HISTORY):
        return function(asked, history)
    name = next((one.name for one in others if one.name in _HISTORY and one.kind in by_keyword), None)
    return function(asked) if name is None else function(asked, **{name: history})


def _run_pipeline(pipeline: Any, asked: Any) -> dict[str, Any]:
    """Run a Haystack pipeline: open inputs for a question are given it, and the outputs of all parts kept."""
    data = asked
    if isinstance(asked, str):
        data = {
            component: {name: asked for name in inputs if name in {"query", "question", "text"}}
            for component, inputs in pipeline.inputs().items()
        }
        data = {component: inputs for component, inputs in data.items() if inputs}
    graph = getattr(pipeline, "graph", None)
    names = set(graph.nodes) if graph is not None else None
    outputs = pipeline.run(data, include_outputs_from=names) if names else pipeline.run(data)
    found: dict[str, Any] = {}
    for output in outputs.values():
        found |= {name: value for name, value in output.items() if name in (*ANSWERS, *PASSAGES)}
    return found
