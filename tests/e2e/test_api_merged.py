# SPDX-License-Identifier: Apache-2.0
"""What a program is told of its own leaks is what memscan says of it from outside."""

import pytest

from support import Process, check_scanned, scan
from test_api import VARIANTS, program


@pytest.mark.parametrize("variant", VARIANTS)
def test_merged_as_from_outside(variant):
    with Process([program("cc_merged", variant), "wait"]) as target:
        listed, similar, total, signature, how, name = target.line().split(" ", 5)
        assert target.line() == "READY"
        report = check_scanned(scan(target.pid, merge=True))
        assert (listed, similar) == ("1", "29")
        leak, = report["leaks"]
        assert leak["similar_count"] == 29 and leak["total_size"] == int(total), leak
        assert leak["type"] == {"name": name, "how": how} and how == "vtable", (leak, name, how)
        assert leak["signature"] == signature, (leak, signature)
        assert target.finish() == 0
