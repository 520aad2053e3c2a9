# SPDX-License-Identifier: Apache-2.0
"""Ruby's heap: slots that its collector has swept still have what the object had."""

import shutil

import pytest

import support
from support import Process, check_scanned, scan

RUBY = shutil.which("ruby", path="/usr/bin:/usr/local/bin")

# Strings that are said not to own their bytes (STR_NOFREE), so that these are lost with the string.
LOSE = """
require "fiddle"
def lose(count)
  count.times do |i|
    header = Fiddle::Pointer.new(Fiddle.dlwrap("of number %d, " % i * 10))
    header[0, 8] = [header[0, 8].unpack1("Q") | 1 << 30].pack("Q")
  end
  nil
end
lose(2000)
3.times { GC.start }
STDOUT.puts "READY"
STDOUT.flush
STDIN.read
"""


@pytest.mark.skipif(not RUBY, reason="no ruby")
@pytest.mark.parametrize("how", ["copy", "fork"])
def test_swept_slots_hold_nothing(how):
    with Process([RUBY, "--disable-gems", "-e", LOSE]) as ruby:
        assert ruby.line() == "READY"
        report = check_scanned(scan(ruby.pid, "--snapshot", how, "--no-fold", "--limit", "all"))
        lost = [leak for leak in report["leaks"] if leak.get("text", "").startswith("of number")]
        # the last ones are still on the stack
        assert 1900 <= len(lost) <= 2000, report["totals"]
        assert len(report["leaks"]) <= 2010, support.kinds(report)
