"""Turns a message of the stream into a document and a document into plain words to index; pure."""

import msgspec

from hasten.codec import decode
from hasten.markup import html_to_markdown
from hasten.messages.failure import Failed
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.retriever.domain import Refused, check
from hasten.retriever.records import Key
from hasten.retriever.rows import Mail
from hasten.topics import BadName

_PREFIX = DOCUMENT.pattern.partition("*")[0]


def concerns_documents(subject: str) -> bool:
    """Whether a subject is meant for the retriever, well-formed or not."""
    return subject.startswith(_PREFIX)


def address(subject: str) -> Key:
    """Tenant and collection of a document's subject, with an empty id; raises Refused when they are no names."""
    try:
        tokens = DOCUMENT.parse(subject)
    except BadName as error:
        raise Refused(str(error)) from None
    return Key(tokens["tenant"], tokens["collection"], "")


def read(subject: str, data: bytes, sequence: int) -> Mail:
    """The document in a message; raises Refused for one that can never be indexed."""
    where = address(subject)
    try:
        document: Document = decode(DOCUMENT.request, data)
    except Failed as failed:
        raise Refused(failed.failure.detail) from None
    if document.op == "upsert":
        check(document)
    return Mail(Key(where.tenant, where.collection, document.id), sequence, document)


def readable(document: Document) -> Document:
    """The document with HTML turned into Markdown, which is the text that the spans of its passages refer to."""
    if document.media_type != "text/html":
        return document
    title, text = html_to_markdown(document.text)
    return msgspec.structs.replace(document, text=text, title=document.title or title, media_type="text/markdown")
