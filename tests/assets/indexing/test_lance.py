"""LanceDB is imported without the checks of a client that is never used, and with pydantic as it was."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import pydantic
before = pydantic.validate_call
from rag_assay.assets.indexing.index_table import lancedb
module = lancedb()
import lance_namespace_urllib3_client.api.table_api as client
@pydantic.validate_call
def doubled(number: int) -> int:
    return 2 * number
print(module.__name__, pydantic.validate_call is before, doubled("4"),
      hasattr(client.TableApi.list_all_tables, "raw_function"))
"""


def test_importing_lancedb_leaves_pydantic_as_it_was_and_the_clients_methods_undecorated() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["lancedb", "True", "8", "False"]
