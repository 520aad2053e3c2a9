# SPDX-License-Identifier: Apache-2.0
"""docs/JSON.md, docs/memscan.schema.json and the reports agree."""

import copy
import json
import re

import fastjsonschema
import pytest

import schema
import support
from support import Target, compile_target, scan

GOLDEN = support.ROOT / "tests/golden/report.json"
JSON_MD = support.ROOT / "docs/JSON.md"
DRAFT = "http://json-schema.org/draft-07/schema#"
fields = schema.load_fields()


@pytest.fixture
def report():
    """The sample of the unit tests, in which every field occurs."""
    return support.read_report(GOLDEN.read_text())


def parts_of(part):
    """All schemas within a schema."""
    yield part
    for name in ("items", "if", "then", "else", "not"):
        if name in part:
            yield from parts_of(part[name])
    for name in ("properties", "definitions"):
        for below in part.get(name, {}).values():
            yield from parts_of(below)


KEYWORDS = {"$schema", "title", "description", "type", "additionalProperties", "required", "properties", "items",
            "definitions", "$ref", "const", "enum", "pattern", "minimum", "maximum", "minItems", "minLength",
            "dependencies", "if", "then", "else", "not"}


@pytest.mark.parametrize("rules", [schema.SCHEMA, schema.ANSWERS], ids=["report", "answers"])
def test_schema_is_valid(rules):
    """The compiler takes words that it does not know for none, so that a slip of the pen would check nothing."""
    assert rules["$schema"] == DRAFT
    fastjsonschema.compile(rules)
    used = set()
    for part in parts_of(rules):
        assert part.keys() <= KEYWORDS, part.keys() - KEYWORDS
        if "$ref" in part:
            assert part.keys() == {"$ref"}, "draft-07 takes nothing beside $ref"
            used.add(part["$ref"].removeprefix("#/definitions/"))
        if part.get("type") == "object" and part is not schema.ANSWERS:
            assert part["additionalProperties"] is False
            assert set(part.get("required", [])) <= part["properties"].keys(), part
        if "pattern" in part:
            re.compile(part["pattern"])
    assert used == rules["definitions"].keys()


def test_docs_and_schema_have_the_same_fields(report):
    documented = fields.of_docs(JSON_MD.read_text())
    assert len(documented) == len(set(documented)), "a field is documented twice"
    assert set(documented) == fields.of_schema(schema.SCHEMA)
    assert set(documented) == fields.of_report(report), "what is documented is what is written"


def test_docs_and_schema_have_the_same_values():
    text = JSON_MD.read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    leak = schema.SCHEMA["definitions"]["leak"]["properties"]
    scan_fields = schema.SCHEMA["properties"]["scan"]["properties"]
    for value in leak["reason"]["enum"]:
        assert value in rows
    how = schema.SCHEMA["definitions"]["type"]["properties"]["how"]
    for path, values in (("leaks[].kind", leak["kind"]), ("leaks[].type.how", how),
                         ("scan.source", scan_fields["source"]),
                         ("scan.phases[].name", scan_fields["phases"]["items"]["properties"]["name"])):
        assert set(values["enum"]) <= set(re.findall(r"`([^`]+)`", rows[path])), path


DAMAGE = [
    ("a field is missing", lambda r: r["totals"].pop("leaked_bytes")),
    ("a field is null", lambda r: r["scan"].update(pause_ns=None)),
    ("a field is unknown", lambda r: r["leaks"][0].update(sise=1)),
    ("a number is a string", lambda r: r["leaks"][0].update(size="20")),
    ("a number is negative", lambda r: r["unlisted"].update(leaks=-1)),
    ("a number is a fraction", lambda r: r["heaps"][0].update(free_bytes=0.5)),
    ("an address is a number", lambda r: r["leaks"][0].update(address=0x7a03454400)),
    ("an address is none, of a leak like another", lambda r: r["leaks"].append({**r["leaks"][0], "address": "7a"})),
    ("a number is 0, of a leak like another", lambda r: r["leaks"].append({**r["leaks"][0], "id": 0})),
    ("a size is none, of a leak like another", lambda r: r["leaks"].append({**r["leaks"][0], "size": True})),
    ("an address is no address", lambda r: r["leaks"][0]["backtrace"][0].update(pc="7f0000002abc")),
    ("a kind is unknown", lambda r: r["leaks"][0].update(kind="certain")),
    ("a leak has a reason", lambda r: r["leaks"][0].update(reason="interior")),
    ("a possible leak has none", lambda r: r["leaks"][2].pop("reason")),
    ("contents of an odd length", lambda r: r["leaks"][0].update(contents="abc")),
    ("a place without its file", lambda r: r["leaks"][0]["backtrace"][0].pop("module")),
    ("a text is empty", lambda r: r["target"].update(exe="")),
    ("half of a sum", lambda r: r["totals"].pop("possible_bytes")),
    ("a list is none", lambda r: r.update(warnings="none")),
    ("another schema", lambda r: r.update(schema="memscan.report/2")),
]


@pytest.mark.parametrize("change", [change for _, change in DAMAGE], ids=[name for name, _ in DAMAGE])
def test_a_damaged_report_is_refused(report, change):
    damaged = copy.deepcopy(report)
    change(damaged)
    with pytest.raises(AssertionError, match="not as docs/memscan.schema.json says"):
        support.read_report(json.dumps(damaged))


def answers():
    """The samples of the unit tests, by name."""
    return {name: json.loads((support.ROOT / f"tests/golden/{name}.json").read_text())
            for name in ("why", "retained", "diff")}


def test_sample_answers_are_as_documented():
    for name, answer in answers().items():
        assert answer["schema"] == f"memscan.{name}/1"
        schema.check_answer(answer)


ANSWER_DAMAGE = [
    ("why", "another schema", lambda a: a.update(schema="memscan.why/2")),
    ("why", "no more", lambda a: a["subjects"][0].pop("more")),
    ("why", "a root of no kind", lambda a: a["subjects"][0]["chains"][0]["root"].pop("kind")),
    ("why", "a leak that nothing is said of", lambda a: a["subjects"][2].pop("holders")),
    ("why", "code with a size", lambda a: a["subjects"][4].update(size=1)),
    ("why", "one count alone", lambda a: a.pop("reachable_of_type")),
    ("why", "unknown field of a step", lambda a: a["subjects"][0]["chains"][0]["steps"][0].update(of=1)),
    ("retained", "a weight without bytes", lambda a: a["totals"]["shared"].pop("bytes")),
    ("retained", "a negative weight", lambda a: a["by_root"][0].update(retained_bytes=-1)),
    ("retained", "a step of a chain without address", lambda a: a["by_root"][0]["chain"][0].pop("address")),
    ("retained", "an offset in no symbol", lambda a: a["by_root"][0]["root"].pop("symbol")),
    ("diff", "a change of its own", lambda a: a["leaks"][0].update(change="better")),
    ("diff", "no totals", lambda a: a["old"].pop("leaked_bytes")),
    ("diff", "a fraction", lambda a: a["live"][0].update(growth_bytes=0.5)),
    ("diff", "an empty warning", lambda a: a["warnings"].append("")),
]


@pytest.mark.parametrize("name,change", [(name, change) for name, _, change in ANSWER_DAMAGE],
                         ids=[f"{name}: {what}" for name, what, _ in ANSWER_DAMAGE])
def test_a_damaged_answer_is_refused(name, change):
    damaged = answers()[name]
    change(damaged)
    with pytest.raises(AssertionError, match="not as docs/memscan-answers.schema.json says"):
        support.read_answer(json.dumps(damaged))


def test_answers_are_documented():
    """Each member, by its name or as the last part of one."""
    text = JSON_MD.read_text()
    names = {name for part in parts_of(schema.ANSWERS) for name in part.get("properties", {})}
    named = {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[a-z_]+", code)}
    assert names <= named, names - named


@pytest.mark.parametrize("options", [[], ["--possible", "--contents"], ["--no-fold", "--confirm=0.05"]],
                         ids=lambda options: " ".join(options) or "plain")
def test_a_real_report_is_as_documented(options):
    """scan() reads it as every test does; here the check itself is seen at work."""
    with Target([compile_target("leaks"), "sizes"]) as target:
        done = scan(target.pid, *options)
        report = done.report
        assert report["leaks"]
        assert fields.of_report(report) <= fields.of_schema(schema.SCHEMA)
        assert ("possible_bytes" in report["totals"]) == ("--possible" in options)
        assert all("contents" in leak for leak in report["leaks"]) == ("--contents" in options)
        assert ("confirm_ns" in report["scan"]) == ("--confirm=0.05" in options)
        done.stdout = done.stdout.replace('"attempts":', '"tries":')
        with pytest.raises(AssertionError, match="attempts|tries"):
            assert done.report
