# SPDX-License-Identifier: Apache-2.0
"""Programs with windows, on a display of their own that nobody sees."""

import json
import os
import signal
import socket
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


PAGES = 40


def pdf():
    """A document of some pages with text."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>",
               f"<</Type/Pages/Count {PAGES}/Kids[{' '.join(f'{4 + 2 * i} 0 R' for i in range(PAGES))}]>>",
               "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    for i in range(PAGES):
        text = "BT /F 12 Tf 40 750 Td " + " ".join(f"(page {i} line {k}) Tj 0 -14 Td" for k in range(50)) + " ET"
        objects += [f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>/Contents {5 + 2 * i} 0 R>>",
                    f"<</Length {len(text)}>>stream\n{text}\nendstream"]
    made, places = "%PDF-1.4\n", []
    for i, text in enumerate(objects):
        places.append(len(made))
        made += f"{i + 1} 0 obj\n{text}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (f"{made}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(made)}\n%%EOF\n")


@program("evince", "evince xvfb xdotool")
def evince(place):
    env = display(place)
    process = place.start(place.command("evince"), place.write("text.pdf", pdf()), env=env)
    hand = Hand(place, env)
    window = hand.window_of(process)

    def work(_, turn):
        hand.do("windowfocus", window, "key", ("Next", "ctrl+plus", "Next", "ctrl+minus", "ctrl+Right", "F5", "Escape",
                                               "ctrl+Home")[turn % 8])
        hand.do("windowsize", window, 600 + turn % 5 * 50, 600 + turn % 3 * 40)
    place.busy(work)
    yield of(process)
    place.end_work()
    process.popen.send_signal(signal.SIGTERM)
    place.end(process, -signal.SIGTERM)


@program("mpv", "mpv")
def mpv(place):
    """Plays a film drawn by a filter, controlled through a socket."""
    path = f"{place.folder}/mpv"
    process = place.start(place.command("mpv"), "--no-config", "--vo=null", "--ao=null", "--loop=inf",
                          f"--input-ipc-server={path}", "av://lavfi:testsrc2=size=320x240:rate=50:duration=5")
    place.wait(lambda: os.path.exists(path), "mpv listens")
    ask = socket.socket(socket.AF_UNIX)
    ask.connect(path)
    answers = ask.makefile("rb")

    def work(_, turn):
        words = (["seek", turn % 4, "absolute"], ["set", "speed", str(1 + turn % 3)], ["show-text", f"text {turn}"],
                 ["vf", "set", ("hflip", "vflip", "scale=160:120", "")[turn % 4]], ["get_property", "track-list"],
                 ["cycle", "pause"], ["cycle", "pause"], ["get_property", "property-list"])[turn % 8]
        ask.sendall(json.dumps({"command": words}).encode() + b"\n")
        while b'"error"' not in (line := answers.readline()):
            assert line, "mpv has ended"
    place.busy(work)
    yield of(process)
    place.end_work()
    ask.sendall(b'{"command": ["quit"]}\n')
    place.end(process)
