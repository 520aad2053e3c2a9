# SPDX-License-Identifier: Apache-2.0
"""Programs under Valgrind's memcheck, which vgdb asks for a leak check."""

import re
import subprocess

LOST = re.compile(r"(definitely|indirectly|possibly) lost: ([\d,]+)(?: \([+-][\d,]+\))? bytes "
                  r"in ([\d,]+)(?: \([+-][\d,]+\))? blocks")


def under(argv):
    return ["valgrind", "--vgdb=yes", "--leak-check=no", "--log-file=/dev/null", *map(str, argv)]


def lost(pid, seconds=120):
    """(blocks, bytes) definitely and indirectly lost, and (blocks, bytes) possibly lost."""
    done = subprocess.run(["vgdb", f"--pid={pid}", "leak_check", "summary", "any"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    if "All heap blocks were freed" in done.stdout:
        return (0, 0), (0, 0)
    found = {kind: (int(blocks.replace(",", "")), int(size.replace(",", "")))
             for kind, size, blocks in LOST.findall(done.stdout)}
    assert found, done.stdout
    return tuple(map(sum, zip(found["definitely"], found["indirectly"]))), found["possibly"]
