"""Dagster's GraphQL API over the current definitions, in a process that ends with this one."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from rag_assay.orchestration.child_module import start_module
from rag_assay.orchestration.loopback import free_loopback_port
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.processes import end_process

REPOSITORY = "__repository__"  # what Dagster calls the definitions of a code location
ASSET_JOB = "__ASSET_JOB"
_PATIENCE = 180.0  # seconds until a server that does not answer is given up
_GRACE = 5.0  # seconds to end in

_LOADED = (
    "{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { __typename "
    "... on PythonError { message } } } } } }"
)
_PARTITIONS = "query ($keys: [AssetKeyInput!]) { assetNodes(assetKeys: $keys) { partitionKeys } }"
_LAUNCH = (
    "mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) { __typename "
    "... on LaunchRunSuccess { run { runId } } ... on Error { message } "
    "... on RunConfigValidationInvalid { errors { message } } } }"
)


class GraphQLServer:
    """A web server of Dagster on loopback, under a path that only this process knows.

    Args:
        module: of the code location, which is its name too.
        attribute: of the module, that holds the definitions.
    """

    def __init__(self, module: str, attribute: str) -> None:
        self._module = module
        self._folder = tempfile.TemporaryDirectory(prefix="assay-graphql-")
        workspace = Path(self._folder.name) / "workspace.yaml"
        where = {"module_name": module, "attribute": attribute, "location_name": module}
        workspace.write_text(json.dumps({"load_from": [{"python_module": where}]}))
        port, prefix = free_loopback_port(), f"/{secrets.token_urlsafe(24)}"
        quiet = [
            option
            for name in ("", "dagster-", "code-server-")
            for option in (f"--{name}log-level", "critical")
        ]
        options = ["-w", str(workspace), "-h", "127.0.0.1", "-p", str(port), "-l", prefix, *quiet]
        self._process = start_module("dagster_webserver", *options)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}{prefix}", timeout=60, trust_env=False)
        try:
            self._wait_until_loaded()
        except BaseException:
            self.close()
            raise

    def partition_keys(self, asset: Sequence[str]) -> list[str]:
        """Return the partitions of an asset, by the path of its key; none if it is not defined."""
        nodes = self._ask(_PARTITIONS, {"keys": [{"path": list(asset)}]})["assetNodes"]
        return [str(key) for node in nodes for key in node["partitionKeys"]]

    def launch(self, asset: Sequence[str], tags: Mapping[str, str]) -> str:
        """Submit a run of the partitions of an asset that its tags name; return its id."""
        selector = {
            "repositoryLocationName": self._module,
            "repositoryName": REPOSITORY,
            "jobName": ASSET_JOB,
            "assetSelection": [{"path": list(asset)}],
        }
        named = [{"key": name, "value": value} for name, value in tags.items()]
        params = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": named}}
        found = self._ask(_LAUNCH, {"params": params})["launchRun"]
        if "run" not in found:
            errors = [one["message"] for one in found.get("errors", [])]
            raise AssayError(f"Dagster refused a run: {found.get('message') or '; '.join(errors)}")
        return str(found["run"]["runId"])

    def close(self) -> None:
        self._client.close()
        end_process(self._process, _GRACE)
        self._folder.cleanup()

    def _wait_until_loaded(self) -> None:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if (code := self._process.poll()) is not None:
                raise AssayError(f"dagster-webserver ended with exit code {code}")
            with suppress(httpx.TransportError):
                (entry,) = self._ask(_LOADED, {})["workspaceOrError"]["locationEntries"]
                if message := entry["locationOrLoadError"].get("message"):
                    raise AssayError(f"{self._module} cannot be loaded: {message.strip()}")
                return
            time.sleep(0.1)
        raise AssayError(f"dagster-webserver did not answer within {_PATIENCE:.0f} s")

    def _ask(self, query: str, variables: Mapping[str, Any]) -> Any:
        answer = self._client.post("/graphql", json={"query": query, "variables": variables})
        found = answer.json()
        if found.get("errors"):
            raise AssayError(f"Dagster refused a query: {found['errors'][0]['message']}")
        return found["data"]
