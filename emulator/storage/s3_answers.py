"""The forms of S3's answers."""

from html import escape

from emulator.storage.s3_requests import Answer

_XML = ("Content-Type", "application/xml")


def xml(body: bytes) -> Answer:
    """An answer with a document."""
    return "200 OK", [_XML, ("Content-Length", str(len(body)))], [body]


def error(status: str, code: str, message: str) -> Answer:
    """A refusal."""
    body = f"<Error>{element('Code', code)}{element('Message', message)}</Error>".encode()
    return status, [_XML, ("Content-Length", str(len(body)))], [body]


def document(name: str, content: str) -> bytes:
    """A document of S3; *content* is XML."""
    body = f'<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{content}</{name}>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def element(name: str, value: str) -> str:
    """An element with text in it."""
    return f"<{name}>{escape(value, quote=False)}</{name}>"


INCOMPLETE = error("400 Bad Request", "IncompleteBody", "the body is shorter than its Content-Length")
