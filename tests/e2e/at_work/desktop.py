# SPDX-License-Identifier: Apache-2.0
"""Programs with windows, on a display of their own that nobody sees."""

import os
import subprocess

from at_work import NO_LOG, of, program


def display(place):
    """An X server without a screen; what its clients need in their environment."""
    out, into = os.pipe()
    place.start(place.command("Xvfb"), "-displayfd", str(into), "-screen", "0", "1000x800x24", "-nolisten", "tcp",
                env=NO_LOG, pass_fds=[into])
    os.close(into)
    with os.fdopen(out) as numbers:
        number = numbers.readline().strip()
    return {"DISPLAY": f":{number}", "HOME": place.folder, "XDG_RUNTIME_DIR": place.folder, "GDK_BACKEND": "x11",
            "NO_AT_BRIDGE": "1", "GSETTINGS_BACKEND": "memory", "GTK_A11Y": "none"}


class Hand:
    """Moves the mouse and types: a shell that calls xdotool for each line of its input, and repeats its last answer."""

    def __init__(self, place, env):
        place.command("xdotool")
        loop = "while read -r line; do said=$(xdotool $line | tail -n 1) || exit; echo \"done $said\"; done"
        self.process = place.start("/bin/sh", "-c", loop, env={**env, **NO_LOG}, stdout=subprocess.PIPE)

    def do(self, *words):
        return self.process.ask(" ".join(map(str, words)) + "\n").removeprefix("done ")

    def window_of(self, process):
        """The window of a process; it may have several, of which the last is the one to be used."""
        return self.do("search", "--sync", "--onlyvisible", "--pid", process.pid)


@program("gtk3-widget-factory", "gtk-3-examples xvfb xdotool")
def gtk(place):
    env = display(place)
    process = place.start(place.command("gtk3-widget-factory"), env=env)
    hand = Hand(place, env)
    window = hand.window_of(process)

    def work(_, turn):
        x, y = 30 + turn * 37 % 900, 60 + turn * 53 % 600
        hand.do("mousemove --window", window, x, y, "click 1 key Escape key Tab key space key Escape key Down",
                "windowsize", window, 700 + turn % 5 * 50, 650 + turn % 3 * 40)
    place.busy(work)
    yield of(process)
    place.end_work()
    # out of whatever menu or dialogue the mouse has opened
    for _ in range(4):
        hand.do("windowfocus", window, "key Escape")
    hand.do("windowfocus", window, "key ctrl+q")
    place.end(process)
