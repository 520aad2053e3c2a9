# SPDX-License-Identifier: Apache-2.0
"""Names of types that memscan proposes can be given to it: they are whole, and quoted for the shell."""

import shlex

from support import SNAPSHOT, Target, compile_target, memscan

COULD_NOT_SCAN = 3


def test_types_of_a_hint_can_be_pasted():
    with Target([compile_target("long_names.cc", compiler="g++")]) as target:
        refused = memscan("why", "--pid", target.pid, *SNAPSHOT, "Zebra")
        assert refused.status == COULD_NOT_SCAN, str(refused)
        names = [word.rstrip(",") for word in shlex.split(refused.stderr.rpartition(" known types: ")[2])]
        assert len(names) == 2 and "Registrar" in names and max(map(len, names)) > 80, str(refused)
        for name in names:
            done = memscan("why", "--pid", target.pid, *SNAPSHOT, name)
            assert done.status == 0 and name in done.stdout, str(done)
