"""A real S3 server (moto) on loopback, and the environment by which a home lies in a bucket of it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

KEYS = {
    "AWS_ACCESS_KEY_ID": "key-of-test",
    "AWS_SECRET_ACCESS_KEY": "secret-of-test",
    "AWS_REGION": "us-east-1",
}


class Server(NamedTuple):
    """An S3 server.

    address: `http://127.0.0.1:PORT`
    """

    address: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use it."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.address, "ASSAY_REMOTE_PATIENCE": "20"}

    def bucket(self) -> str:
        """Make a new bucket; return its URL."""
        import boto3

        name = f"b{uuid.uuid4().hex[:12]}"
        client = boto3.client(
            "s3",
            endpoint_url=self.address,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region_name=KEYS["AWS_REGION"],
        )
        client.create_bucket(Bucket=name)
        return f"s3://{name}"


@contextmanager
def s3_server() -> Iterator[Server]:
    """Run a server for as long as the block takes."""
    import logging
    from unittest import mock

    from moto.moto_server import threaded_moto_server as moto

    lock = threading.Lock()

    class Serial(moto.DomainDispatcherApplication):
        """Answers one request after another: moto's conditional writes are not atomic, those of S3 are."""

        def __call__(self, *request: object) -> object:
            with lock:
                return super().__call__(*request)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    with mock.patch.object(moto, "DomainDispatcherApplication", Serial):
        server.start()
    host, port = server.get_host_and_port()
    try:
        yield Server(f"http://{host}:{port}")
    finally:
        server.stop()
