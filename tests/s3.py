"""An object store on loopback that speaks as much of S3 as the tests need: objects in memory, each replaced in one step."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Bucket:
    """One bucket, ``b``, at ``endpoint``; ``objects`` by key. ``broken`` makes every request fail."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.broken = False
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def asked(self) -> tuple[str, dict[str, list[str]]]:
                url = urlsplit(self.path)
                return unquote(url.path).removeprefix("/b").removeprefix("/"), parse_qs(url.query, keep_blank_values=True)

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if bucket.broken:
                    return self.answer(403)
                if "aws-chunked" in self.headers.get("Content-Encoding", ""):
                    body = dechunked(body)
                bucket.objects[self.asked()[0]] = body
                return self.answer(200, ETag='"1"')

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                key, query = self.asked()
                if bucket.broken:
                    return self.answer(403)
                if not key:
                    return self.answer(200, listing(bucket.objects, query), Content_Type="application/xml")
                if key not in bucket.objects:
                    return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", Content_Type="application/xml")
                body, common = bucket.objects[key], {"ETag": '"1"', "Last_Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
                wanted = self.headers.get("Range")
                if not wanted:
                    return self.answer(200, body, **common)
                first, last = wanted.removeprefix("bytes=").split("-")
                start = int(first) if first else len(body) - int(last)
                stop = int(last) + 1 if first and last else len(body)
                return self.answer(206, body[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(body)}", **common)

            def do_DELETE(self) -> None:
                bucket.objects.pop(self.asked()[0], None)
                self.answer(204)

            def do_POST(self) -> None:  # delete several
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                for part in body.split("<Key>")[1:]:
                    bucket.objects.pop(part.split("</Key>")[0], None)
                self.answer(200, b"<DeleteResult/>", Content_Type="application/xml")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def dechunked(body: bytes) -> bytes:
    """Return the content of an ``aws-chunked`` body: sizes in hexadecimal, each before its bytes."""
    out, at = b"", 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if not size:
            return out
        out += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2


def listing(objects: dict[str, bytes], query: dict[str, list[str]]) -> bytes:
    """Return the objects below a prefix as ListObjectsV2 does, folders apart when a delimiter is given."""
    prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
    keys, folders = [], set()
    for key in sorted(objects):
        if key.startswith(prefix):
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                keys.append(key)
    most = int(query.get("max-keys", ["1000"])[0])
    items = [
        f"<Contents><Key>{escape(k)}</Key><Size>{len(objects[k])}</Size><ETag>1</ETag><LastModified>2025-01-01T00:00:00Z</LastModified>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for k in keys[:most]
    ]
    items += [f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders)]
    head = f"<Name>b</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(items)}</KeyCount><MaxKeys>1000</MaxKeys>"
    return f'<?xml version="1.0"?><ListBucketResult>{head}<IsTruncated>false</IsTruncated>{"".join(items)}</ListBucketResult>'.encode()
