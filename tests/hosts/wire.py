"""A cable between two machines that loses, doubles, delays, reorders and damages what it carries.

It is a program in user space between two TAP devices, below TCP: the machines' own TCP sees a bad
network. (The kernel's netem does the same, but many kernels are built without it.)
"""

import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time

from machines import Machines, call

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
LARGEST = 1514  # bytes of a frame
HEADERS = 14 + 20 + 20  # of Ethernet, IP and TCP


def tap(name):
    """The descriptor through which the frames of a new device pass."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


class Faults:
    """Shares of frames that are `lost`, `doubled` and `damaged`; seconds that each takes, with up
    to `jitter` more, so that later ones overtake it. cut: nothing passes; cut_after: frames until
    then.
    """

    def __init__(self, lost=0.0, doubled=0.0, damaged=0.0, delay=0.0, jitter=0.0, cut=False,
                 cut_after=None):
        self.lost, self.doubled, self.damaged = lost, doubled, damaged
        self.delay, self.jitter = delay, jitter
        self.cut, self.cut_after = cut, cut_after


class Wire(threading.Thread):
    """Carries frames from either of two descriptors to the other. `seen` counts what happened."""

    def __init__(self, ends, seed):
        super().__init__(daemon=True)
        self.other = {ends[0]: ends[1], ends[1]: ends[0]}
        self.rng = random.Random(seed)
        self.faults = Faults()
        self.seen = dict(carried=0, lost=0, doubled=0, damaged=0, overtaken=0, cut=0)
        self.under_way, self.number, self.last_sent, self.ends = [], 0, {}, False

    def run(self):
        poll = select.poll()
        for end in self.other:
            poll.register(end, select.POLLIN)
        while not self.ends:
            wait = self.under_way[0][0] - time.monotonic() if self.under_way else 0.1
            wait = min(0.1, max(0.0, wait))
            for end, _ in poll.poll(wait * 1000):
                with contextlib.suppress(OSError):  # no more frames, or the device is down
                    for _ in range(64):
                        self.take(os.read(end, LARGEST + 4), self.other[end])
            while self.under_way and self.under_way[0][0] <= time.monotonic():
                _, number, to, frame = heapq.heappop(self.under_way)
                self.seen["overtaken"] += number < self.last_sent.get(to, 0)
                self.last_sent[to] = max(number, self.last_sent.get(to, 0))
                with contextlib.suppress(OSError):
                    os.write(to, frame)

    def take(self, frame, to):
        f = self.faults
        if f.cut_after is not None:
            f.cut_after -= 1
            f.cut = f.cut or f.cut_after < 0
        if f.cut:
            self.seen["cut"] += 1
            return
        if self.rng.random() < f.lost:
            self.seen["lost"] += 1
            return
        if len(frame) > HEADERS and self.rng.random() < f.damaged:
            at = self.rng.randrange(HEADERS, len(frame))
            frame = frame[:at] + bytes([frame[at] ^ 1 << self.rng.randrange(8)]) + frame[at + 1 :]
            self.seen["damaged"] += 1
        copies = 2 if self.rng.random() < f.doubled else 1
        self.seen["doubled"] += copies - 1
        for _ in range(copies):
            self.number += 1
            self.seen["carried"] += 1
            due = time.monotonic() + f.delay + self.rng.uniform(0, f.jitter)
            heapq.heappush(self.under_way, (due, self.number, to, frame))


class WiredMachines(Machines):
    """Two machines, joined by a Wire instead of a switch."""

    def __init__(self, names, seed):
        self.taps = []
        super().__init__(names)
        self.wire = Wire(self.taps, seed)
        self.wire.start()

    def make_switch(self):
        pass

    def connect(self, machine):
        name = f"tap{len(self.taps)}"
        self.taps.append(tap(name))
        call("ip", "link", "set", name, "netns", str(machine.first.pid))
        call(*machine.command("ip", "link", "set", name, "name", "eth0"))

    def remove_switch(self):
        self.wire.ends = True
        self.wire.join()
        for end in self.taps:
            os.close(end)

    @contextlib.contextmanager
    def faults(self, **what):
        """Meanwhile the wire does that. Yields its faults, which may be changed, and a function for
        how often each has happened since."""
        before = dict(self.wire.seen)
        self.wire.faults = Faults(**what)
        try:
            seen = self.wire.seen
            yield self.wire.faults, lambda: {what: seen[what] - before[what] for what in seen}
        finally:
            self.wire.faults = Faults()
