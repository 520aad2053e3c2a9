# SPDX-License-Identifier: Apache-2.0
"""docs/memscan.schema.json, compiled once, and the fields that it and docs/JSON.md have."""

import functools
import importlib.machinery
import importlib.util
import json
import pathlib

import fastjsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "memscan.schema.json").read_text())


def load_fields():
    """tools/json-fields as a module: its name has no ".py"."""
    loader = importlib.machinery.SourceFileLoader("json_fields", str(ROOT / "tools" / "json-fields"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("json_fields", loader))
    loader.exec_module(module)
    return module


@functools.cache
def compiled():
    return fastjsonschema.compile(SCHEMA)


def check(report):
    """Fail unless @report is as the schema says."""
    try:
        compiled()(report)
    except fastjsonschema.JsonSchemaException as error:
        raise AssertionError(f"the report is not as docs/memscan.schema.json says: {error.message}") from None
