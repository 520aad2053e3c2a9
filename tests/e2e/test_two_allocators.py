# SPDX-License-Identifier: Apache-2.0
"""Several allocators in one process: beside the C library's malloc another one, or a second copy.

Each has an entry in heaps[], a block belongs to one of them, and nothing counts twice. And
threads that allocate from one of them without rest: whatever instant is caught, nothing is a leak.
"""

import itertools
import os

import pytest

import support
from allocators import ALLOCATORS
from support import HOST, Target, check_scanned, compile_target, scan

pytestmark = pytest.mark.spread

SCANS = int(os.environ.get("SCANS", 2))
# The C library's is among them: it has no library to preload.
LIBRARIES = [a for a in ALLOCATORS if a.suite == HOST and a.way == "preload" and not a.tag]
# What gperftools' up to 2.10 begins with is replaced, and never freed.
OWN = ("MallocExtension",)


def environment(allocator):
    """jemalloc's storage for each thread is more than a library that is loaded late may have."""
    more = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}
    return {"LD_PRELOAD": str(allocator.path()), **more} if allocator.library else more


def told(report):
    leaks = [leak for leak in report["leaks"] if leak.get("type", {}).get("name") not in OWN]
    return {int(leak["address"], 16): leak["size"] for leak in leaks}


@pytest.mark.parametrize("first,second", itertools.product(LIBRARIES, LIBRARIES), ids=str)
def test_each_block_is_of_one_of_them(first, second):
    library = second.path() if second.library else "libc.so.6"
    with Target([compile_target("two_heaps"), library], environment(first)) as target:
        # which checks, among others, that the heaps' sums are those of all blocks
        report = check_scanned(scan(target.pid, "--no-fold"))
        used = [heap["allocator"] for heap in report["heaps"] if heap["allocations"] > 100]
        assert sorted(used) == sorted([first.name, second.name]), report["heaps"]
        assert told(report) == target.blocks("leak", "served"), report["warnings"]
        assert target.finish() == 0


@pytest.mark.parametrize("allocator", LIBRARIES, ids=str)
@pytest.mark.parametrize("how", ["fork", "copy"])
def test_nothing_leaks_while_threads_allocate(allocator, how):
    # one arena of jemalloc's for all threads, so that they wait for one another
    with Target([compile_target("allocates"), 4], {"MALLOC_CONF": "narenas:1", **environment(allocator)}) as target:
        verified = 0
        for _ in range(SCANS):
            done = scan(target.pid, "--no-fold", "--snapshot", how)
            if support.is_in_doubt(done):
                continue
            assert not told(done.report), done.report["leaks"]
            verified += all(heap["verified"] for heap in done.report["heaps"])
        # where the processors are busy, the time to lead threads out may run out now and then
        assert verified >= 1
        support.check_untouched(target.pid)
        assert target.popen.poll() is None, "it was ended"
