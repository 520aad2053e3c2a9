# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas in docs/, compiled once, and the fields that it and docs/JSON.md have."""

import functools
import importlib.machinery
import importlib.util
import json
import pathlib

import fastjsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "memscan.schema.json").read_text())
ANSWERS = json.loads((ROOT / "docs" / "memscan-answers.schema.json").read_text())


def load_fields():
    """tools/json-fields as a module: its name has no ".py"."""
    loader = importlib.machinery.SourceFileLoader("json_fields", str(ROOT / "tools" / "json-fields"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("json_fields", loader))
    loader.exec_module(module)
    return module


@functools.cache
def compiled():
    return fastjsonschema.compile(SCHEMA)


@functools.cache
def compiled_answers():
    return fastjsonschema.compile(ANSWERS)


@functools.cache
def compiled_list(field):
    """Checks a list of what leaks have as @field."""
    rules = SCHEMA["definitions"]["leak"]["properties"][field]
    return fastjsonschema.compile({"$schema": SCHEMA["$schema"], "definitions": SCHEMA["definitions"],
                                   "type": "array", "items": rules})


def with_each_leak_once(report):
    """Of leaks that differ by number and address alone the first: thousands of them took most of a test's time."""
    leaks = report.get("leaks")
    if not isinstance(leaks, list) or not all(isinstance(leak, dict) for leak in leaks):
        return report
    for field in ("id", "address"):
        compiled_list(field)([leak.get(field) for leak in leaks])
    kinds = {repr([item for item in leak.items() if item[0] not in ("id", "address")]): leak for leak in reversed(leaks)}
    return {**report, "leaks": list(kinds.values())}


def check(report):
    """Fail unless @report is as the schema says."""
    try:
        compiled()(with_each_leak_once(report))
    except fastjsonschema.JsonSchemaException as error:
        raise AssertionError(f"the report is not as docs/memscan.schema.json says: {error.message}") from None


def check_answer(answer):
    """The same of what why, retained and diff write."""
    try:
        compiled_answers()(answer)
    except fastjsonschema.JsonSchemaException as error:
        raise AssertionError(f"the answer is not as docs/memscan-answers.schema.json says: {error.message}") from None
