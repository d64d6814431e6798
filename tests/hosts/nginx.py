"""A real nginx, as it is set up to give a server TLS and a place below a prefix."""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cli.web import make_certificate
from hosts.process import Process, started

NGINX = shutil.which("nginx", path=os.environ["PATH"] + os.pathsep + "/usr/sbin")
NAME = "mcp.example.com"

needs_nginx = pytest.mark.skipif(
    NGINX is None and not os.environ.get("CI"),  # there, what is missing is installed
    reason="nginx is not installed",
)

CONFIG = """\
daemon off;
pid {folder}/pid;
error_log stderr notice;
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_http_version 1.1;
    {servers}
}}
"""

# Nothing in it is about streams: what keeps nginx from holding events back is a header of the answer.
WITH_TLS = """
    access_log off;
    server {{
        listen unix:{folder}/socket ssl;
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
        client_max_body_size 8m;
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-Proto https;
        proxy_set_header X-Forwarded-For $remote_addr;
        location /prefix/ {{
            proxy_pass {upstream}/;
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-Proto https;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Prefix /prefix;
        }}
        location /.well-known/ {{
            proxy_pass {upstream};
        }}
    }}
"""


@contextmanager
def running_nginx(servers: str, **values: str) -> Iterator[tuple[Process, Path]]:
    """nginx with this configuration, and the folder in which its unix sockets are: their paths must be short."""
    assert NGINX is not None
    with tempfile.TemporaryDirectory() as name:
        folder = make_certificate(Path(name))
        folder.chmod(0o755)  # when root starts nginx, its workers are somebody else
        servers = servers.format(folder=folder, **values)
        (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, servers=servers), encoding="utf-8")
        with started([NGINX, "-p", name, "-e", "stderr", "-c", str(folder / "nginx.conf")]) as nginx:
            nginx.expect("start worker process ")
            yield nginx, folder


@contextmanager
def behind_nginx(upstream: str) -> Iterator[Callable[[], httpx.HTTPTransport]]:
    """nginx in front of a server: makes transports to it."""
    with running_nginx(WITH_TLS, upstream=upstream) as (_, folder):
        verify = ssl.create_default_context(cafile=folder / "cert.pem")
        yield lambda: httpx.HTTPTransport(uds=str(folder / "socket"), verify=verify)
