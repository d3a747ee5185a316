"""What rules make of an event: tags, tenants and documents; what is wrong with a rule is said before it runs."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hasten.changes import BadRule, DocumentRule, Rules, TableRule, evicted
from hasten.changes.settings import changes
from hasten.settings import SettingsError, read_config

SUBJECT = "shop.public.articles"
DOCUMENT = DocumentRule(collection="help", id="{id}", title="{title}", text="{body}", tags=["topic:{topic}"])


def sent(op: str, before: Any = None, after: Any = None, schema: str = "public") -> bytes:
    source = {"schema": schema, "table": "articles"}
    return msgspec.json.encode({"op": op, "before": before, "after": after, "source": source})


def rules(**fields: Any) -> Rules:
    return Rules([TableRule(**{"table": "public.articles", "key": ["id"], **fields})])


def by_tenant(data: bytes, given: Rules, subject: str = SUBJECT, **headers: str) -> dict[str, set[str]]:
    return {one.tenant: set(one.tags) for one in evicted(subject, headers, data, given)}


def test_fixed_tags_and_tags_of_the_key_go_with_every_row() -> None:
    given = rules(tags=["price-list", "price:{id}"])
    for op in "curd":
        tags = by_tenant(sent(op, {"id": 7, "x": None} if op == "d" else None, None if op == "d" else {"id": 7}), given)
        assert tags["*"] >= {"price-list", "price:7", "articles:7", "public.articles:7"}
    assert by_tenant(sent("t"), given)["*"] >= {"price-list", "price", "articles"}


@pytest.mark.parametrize(
    ("data", "wanted", "unwanted"),
    [
        (sent("c", None, {"id": 7, "topic": "a"}), {"topic:a"}, {"topic"}),
        (sent("c", None, {"id": 7, "topic": None}), set(), {"topic"}),
        (sent("c", None, {"id": 7}), {"topic"}, set()),
        (sent("u", None, {"id": 7, "topic": "b"}), {"topic"}, set()),
        (sent("r", None, {"id": 7, "topic": "b"}), {"topic"}, set()),
        (sent("u", {"id": 7, "topic": "a"}, {"id": 7, "topic": "b"}), {"topic:a", "topic:b"}, {"topic"}),
        (sent("u", {"id": 7, "topic": "a"}, {"id": 7, "topic": None}), {"topic:a"}, {"topic"}),
        (sent("u", {"id": 7, "topic": None}, {"id": 7, "topic": "b"}), {"topic"}, set()),
        (sent("u", {"id": 7, "topic": "a"}, {"id": 7, "topic": "__debezium_unavailable_value"}), {"topic"}, set()),
        (sent("d", {"id": 7, "topic": "a"}), {"topic:a"}, {"topic"}),
        (sent("d", {"id": 7, "topic": None}), {"topic"}, set()),
    ],
)
def test_a_tag_of_another_column_is_widened_where_a_value_is_not_told(
    data: bytes, wanted: set[str], unwanted: set[str]
) -> None:
    """Old values are known of key columns only, unless the table's replica identity is full."""
    tags = by_tenant(data, rules(tags=["topic:{topic}"]))["*"]
    assert tags >= wanted
    assert not tags & unwanted


def test_a_rule_finds_its_table_by_name_and_pattern() -> None:
    data = sent("u", None, {"nr": 7})
    for table in ("public.articles", "articles", "public.*", "*", "art*"):
        assert "articles:7" in by_tenant(data, rules(table=table, key=["nr"]))["*"], table
    for table in ("other.articles", "public.article", "other.*"):
        assert by_tenant(data, rules(table=table, key=["nr"]))["*"] == {"articles", "public.articles"}, table
    unnamed = msgspec.json.encode({"table": "articles", "key": {"nr": 7}})
    assert "a:7" in by_tenant(unnamed, rules(key=["nr"], tags=["a:{nr}"]), "hasten.v1.change.app")["*"]


def test_all_rules_of_a_table_hold() -> None:
    given = Rules([TableRule(table="articles", key=["id"], tags=["one"]), TableRule(table="public.*", tags=["two"])])
    assert by_tenant(sent("u", None, {"id": 7}), given)["*"] >= {"one", "two", "articles:7"}


def test_the_rows_of_one_tenant_evict_that_tenants_answers() -> None:
    tags = by_tenant(sent("u", None, {"id": 7}), rules(tenant="acme", tags=["t"]))
    assert set(tags) == {"acme"}
    assert tags["acme"] >= {"articles:7", "t"}
    assert set(by_tenant(sent("t"), rules(tenant="acme"))) == {"acme"}


def test_a_key_column_names_the_tenant() -> None:
    given = rules(key=["tenant", "id"], tenant="{tenant}", tags=["n:{id}"])
    tags = by_tenant(sent("u", None, {"id": 7, "tenant": "acme"}), given)
    assert tags == {
        "acme": {"articles:7,acme", "public.articles:7,acme", "n:7", "articles:*", "public.articles:*", "n:*"}
    }
    moved = by_tenant(sent("u", {"id": 7, "tenant": "acme"}, {"id": 7, "tenant": "globex"}), given)
    assert set(moved) == {"acme", "globex"}
    for odd in ("No Name", "a.b", "*", 7.5):
        assert set(by_tenant(sent("u", None, {"id": 7, "tenant": odd}), given)) == {"*"}, odd
    assert set(by_tenant(sent("t"), given)) == {"*"}, "an emptied table was everybody's"


def test_a_tenant_in_another_column_evicts_for_all_and_is_warned_of() -> None:
    """The row moved from tenant a to b, and only b is in the event."""
    given = rules(tenant="{tenant_id}", tags=["topic:{topic}"])
    assert set(by_tenant(sent("u", None, {"id": 4, "tenant_id": "b"}), given)) == {"*"}
    tenant, tag = given.warnings
    assert "'public.articles': tenant needs the column tenant_id" in tenant
    assert "tags[0] needs the column topic" in tag
    assert rules(tenant="acme", tags=["a:{id}", "b"]).warnings == []


def test_a_key_that_the_source_does_not_have_evicts_the_table_unless_the_old_row_is_told() -> None:
    """The message's key says that the primary key is `id`: an update may have changed `sku`."""
    given, key = rules(key=["sku"]), {"Hasten-Key": '{"id": 7}'}
    assert "articles" in by_tenant(sent("u", None, {"id": 7, "sku": "B"}), given, **key)["*"]
    assert "articles" not in by_tenant(sent("c", None, {"id": 7, "sku": "B"}), given, **key)["*"]
    told = by_tenant(sent("u", {"id": 7, "sku": "A"}, {"id": 7, "sku": "B"}), given, **key)["*"]
    assert told >= {"articles:A", "articles:B"}
    assert "articles" not in told


def test_an_ignored_snapshot_evicts_nothing_but_what_its_documents_do() -> None:
    read = sent("r", None, {"id": 7, "title": "T", "body": "b"})
    assert by_tenant(read, rules(snapshot="ignore")) == {}
    assert "articles:7" in by_tenant(sent("u", None, {"id": 7}), rules(snapshot="ignore"))["*"]
    tags = by_tenant(read, rules(snapshot="ignore", tenant="acme", document=DOCUMENT))
    assert tags == {"acme": {"document:help/7", "document:*", "collection:help", "collection:*"}}


def test_a_row_that_becomes_a_document_evicts_as_the_document_would() -> None:
    given = rules(document=msgspec.structs.replace(DOCUMENT, tenant="acme"))
    for data in (
        sent("c", None, {"id": 7, "body": "b", "topic": "x"}),
        sent("d", {"id": 7, "body": None, "topic": "x"}),
    ):
        tags = by_tenant(data, given)
        assert tags["acme"] >= {"document:help/7", "collection:help", "topic:x"}
        assert "articles:7" in tags["*"]
    for data in (sent("t"), sent("u", None, {"nr": 7}), b"{"):
        assert "collection:help" in by_tenant(data, given)["acme"]


def test_what_a_tenant_says_of_rows_concerns_that_tenant_alone() -> None:
    given = rules(tenant="globex", tags=["t"], document=DOCUMENT)
    data = msgspec.json.encode({"table": "articles", "key": 7})
    tags = by_tenant(data, given, "hasten.v1.change._tenant.acme")
    assert set(tags) == {"acme"}
    assert tags["acme"] >= {"articles:7", "t"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"table": ""}, "a table without a name: table must be"),
        ({"table": "a.b.c"}, "table 'a.b.c': table must be schema.table or table"),
        ({"key": ["id", "id"]}, "key must name each column once"),
        ({"tenant": "Not A Name"}, "tenant: tenant must be"),
        ({"tags": ["{id}"]}, "tags\\[0\\]: a tag with a column begins with a fixed part"),
        ({"tags": ["ok", "x{id}"]}, "tags\\[1\\]"),
        ({"tags": [""]}, "tags\\[0\\]"),
        ({"tags": ["a:{"]}, "tags\\[0\\]: braces must hold the name of a column"),
        ({"tags": ["a:{}"]}, "braces must hold"),
        ({"document": DOCUMENT}, "document.tenant: a document belongs to one tenant"),
        ({"document": DOCUMENT, "tenant": "{owner}"}, "document.tenant: the column owner is not in key"),
        ({"document": DOCUMENT, "tenant": "a", "key": []}, "document: key must name"),
        ({"document": DOCUMENT, "tenant": "a", "table": "public.*"}, "named in full"),
        ({"document": msgspec.structs.replace(DOCUMENT, id="{sku}"), "tenant": "a"}, "document.id: the column sku"),
        ({"document": msgspec.structs.replace(DOCUMENT, id="x"), "tenant": "a"}, "all rows are one document"),
        ({"document": msgspec.structs.replace(DOCUMENT, collection="A B"), "tenant": "a"}, "document.collection"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRule, match=said):
        rules(**wrong)


def config(folder: Path, text: str, more: str = "") -> dict[str, Any]:
    (folder / "rules.toml").write_text(more)
    (folder / "hasten.toml").write_text(text)
    return read_config(folder / "hasten.toml")


def test_one_section_is_read_by_every_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of rules is beside the config; what is in the config comes first; variables say the same."""
    text = '[changes]\nsources = ["shop.>"]\nrules = "rules.toml"\n[[changes.tables]]\ntable = "a"\n'
    more = '[[tables]]\ntable = "public.b"\nkey = ["id"]\ntags = ["b:{c}"]\n'
    found = changes(config(tmp_path, text, more))
    assert found.sources == ["shop.>"]
    assert [rule.table for rule in found.rules.all] == ["a", "public.b"]
    assert len(found.warnings) == 1
    assert "rules.toml: table 'public.b': tags[0]" in found.warnings[0]
    assert changes(config(tmp_path, '[changes]\nrules = ""\n', "")).rules.all == [], "no file is no rules"
    (tmp_path / "rules.toml").write_text(more)
    monkeypatch.setenv("HASTEN_CHANGES_SOURCES", "shop.>, crm.>")
    monkeypatch.setenv("HASTEN_CHANGES_RULES", str(tmp_path / "rules.toml"))
    assert changes({}).sources == ["shop.>", "crm.>"]
    assert [rule.table for rule in changes({}).rules.all] == ["public.b"]


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("[changes]\nsorces = []", "", r"\[changes\] has no setting sorces"),
        ('[changes]\nrules = "none.toml"', "", "none.toml cannot be read"),
        ('[changes]\nrules = "rules.toml"', "[tables]\na = 1", "a list of"),
        ('[changes]\nrules = "rules.toml"', "[[table]]\na = 1", "a list of"),
        ('[changes]\nrules = "rules.toml"', "[[tables", "not valid TOML"),
        (
            '[changes]\nrules = "rules.toml"',
            '[[tables]]\ntable = "p"\nkeys = ["id"]',
            "rules.toml: table 'p': there is no field `keys`",
        ),
        ('[changes]\nrules = "rules.toml"', '[[tables]]\ntable = "p"\nkey = "id"', "table 'p': key: expected `array`"),
        ('[changes]\nrules = "rules.toml"', '[[tables]]\nkey = ["id"]', "table 1: .*table"),
        ('[changes]\nrules = "rules.toml"', '[[tables]]\ntable = "p"\ntags = ["{id}"]', "rules.toml: table 'p': tags"),
        ('[[changes.tables]]\ntable = "p"\nsnapshot = "no"', "", r"\[changes\]: table 'p': .*snapshot"),
        ('[changes]\nsources = [">"]', "", "must begin with a name"),
        ('[changes]\nsources = ["*.a"]', "", "must begin with a name"),
        ('[changes]\nsources = ["hasten.v1.chat.*"]', "", "must begin with a name"),
        ('[changes]\nsources = ["_INBOX.>"]', "", "a subject of NATS itself"),
        ('[changes]\nsources = ["$KV.>"]', "", "a subject of NATS itself"),
        ('[changes]\nsources = ["shop..x"]', "", "must begin with a name"),
        ('[changes]\nsources = ["shop.>.x"]', "", "a [*] must stand for a whole token"),
        ('[changes]\nsources = ["shop.p*"]', "", "a [*] must stand for a whole token"),
    ],
)
def test_what_is_wrong_with_the_section_is_one_sentence(tmp_path: Path, text: str, more: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        changes(config(tmp_path, text, more))


def test_the_rules_in_the_documentation_are_rules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "change-events.md").read_text()
    section, tables = (tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    given = changes({"changes": {**section["changes"], "rules": "", "tables": tables["tables"]}})
    assert given.sources == ["shop.>"]
    assert [rule.table for rule in given.rules.all] == ["public.prices", "public.orders", "public.articles"]
    (warning,) = given.warnings
    assert "tags[2] needs the column category" in warning
    article = {"id": 7, "title": "T", "body": "b", "slug": "t", "lang": "en", "section": "s", "topic": "x"}
    assert by_tenant(sent("c", None, article), given.rules)["acme"] >= {"document:help/article-7", "topic:x"}


def test_a_section_that_is_no_table_is_one_sentence() -> None:
    with pytest.raises(SettingsError, match=r"\[changes\] must be a table"):
        changes({"changes": 3})
